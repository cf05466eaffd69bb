"""Metrics, JSON log and notifications of a running sweep."""
