"""Attacks on what is promised in docs/pages/explanation/security.md, and a scan of the code for what breaks it."""
