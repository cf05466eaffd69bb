"""Devices, their memory and their energy counters."""
