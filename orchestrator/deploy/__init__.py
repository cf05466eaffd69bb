"""The folder of a local Ray, and its token."""
