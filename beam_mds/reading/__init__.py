"""What ReadFromMDS is made of: shard files read in ranges, and the steps that do it."""
