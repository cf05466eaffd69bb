"""One launch from start to end: lease, display, limits, monitors, outcome."""
