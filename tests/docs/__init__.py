"""The documentation: it builds, asks nobody, and what it says runs."""
