"""Filters of samples as text."""
