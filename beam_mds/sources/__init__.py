"""The worker's side of the ready-made pipelines: from files of many kinds to samples."""
