"""What verify and rebuild share: what can be wrong with a dataset, and how it is found."""
