"""Verify, repair, compact and export stores."""
