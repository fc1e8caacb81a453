"""Tables in files -> Arrow batches: a module for each format, and no pipeline."""
