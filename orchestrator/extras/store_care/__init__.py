"""Verify, repair, compact, export and merge stores."""
