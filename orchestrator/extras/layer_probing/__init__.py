"""Probes of every layer of the untouched encoder, and how far training moved it."""
