"""One launch from start to end: lease, display, budget, monitors, outcome."""
