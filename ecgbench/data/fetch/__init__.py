"""Fetching of files from where they are published."""
