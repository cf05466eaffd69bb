"""Programs: chaos, benchmarks, GPU, calibration, deployment, which the Makefile runs, and attacks."""
