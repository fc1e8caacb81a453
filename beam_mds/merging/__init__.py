"""What MergeMDSIndex is made of: the parts, their shards, and the index that lists them."""
