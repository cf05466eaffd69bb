"""What to run next: samplers, early stopping, races of seeds, choice of depth. Imports neither Ray nor torch."""
