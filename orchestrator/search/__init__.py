"""Searches decide what to run next: samplers, early stopping, choice of depth. Imports neither Ray nor torch."""
