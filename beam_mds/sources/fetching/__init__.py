"""Fetching URLs: an HTTP client for data that strangers list and strangers serve; no Beam here."""
