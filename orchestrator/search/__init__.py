"""What gives Ray Tune its next trial."""
