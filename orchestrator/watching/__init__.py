"""Watching a sweep from afar: metrics for Prometheus, a log in JSON, messages when it ends or stalls."""
