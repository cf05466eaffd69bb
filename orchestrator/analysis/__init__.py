"""Statistics of a sweep: pure functions of tidy frames and arrays. No drawing, no store, no hidden randomness."""
