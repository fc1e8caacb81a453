"""What a dataset or a sample looks like, for people."""
