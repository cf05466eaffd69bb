"""Tests of `orchestrator.extras`."""
