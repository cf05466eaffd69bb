"""The parts of the GPU run; each module has a `run` that fills in its record."""
