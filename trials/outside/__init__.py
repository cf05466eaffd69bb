"""Checks of what comes from outside: files that other people name, and values that they write."""
