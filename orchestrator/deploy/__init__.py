"""Checks that a machine is ready, and a local Ray."""
