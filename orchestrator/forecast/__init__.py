"""Forecast of a sweep before it runs, and the time left of one that runs."""
