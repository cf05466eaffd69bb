"""One launch from start to end: its loop, limits, display and outcome."""
