"""Freeze strategies: which layers keep their pretrained weights."""
