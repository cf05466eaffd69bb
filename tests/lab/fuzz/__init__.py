"""Thousands of configurations and broken files: each either works or gives one clear message."""
