"""What WriteToMDS is made of: from elements to shard files, and the index that completes them."""
