"""Attacks on the dashboard's server."""
