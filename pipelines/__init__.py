"""Runnable pipelines, one module per conversion: options and wiring, no worker code."""
