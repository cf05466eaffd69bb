"""Training: the loop, optimiser, batches, gradual unfreezing, checkpoints."""
