"""Runs of a sweep for MLflow, TensorBoard and Weights & Biases: while it runs, or afterwards from its store."""
