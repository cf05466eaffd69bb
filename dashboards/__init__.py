"""Permafrost dashboards: see what a store holds; they read the store and the specs, nothing else."""
