"""What to run next: spaces and points of them, searchers, schedulers, races of seeds, goals. No Ray, no torch."""
