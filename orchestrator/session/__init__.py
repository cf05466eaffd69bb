"""One launch from start to end: its store, display, limits, monitors, outcome."""
