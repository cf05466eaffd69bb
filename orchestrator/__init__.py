"""Permafrost orchestrator: from a sweep in YAML to finished trials in a store; the only root that knows Ray."""
