"""Checks that a plan makes of a model before any trial starts; workers repeat some of them."""
