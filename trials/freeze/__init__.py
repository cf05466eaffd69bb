"""Freeze strategies (pure rules) and their application to a model."""
