"""Forecast of a sweep before it runs: time, energy, memory, disk and cost, each with an 80 % interval."""
