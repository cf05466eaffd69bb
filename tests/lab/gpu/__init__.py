"""One command for the first minutes on a GPU: what is exact there, what is fast, and what a setting brings."""
