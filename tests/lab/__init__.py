"""Programs: chaos, benchmarks, GPU, calibration, deployment; the Makefile says what each runs."""
