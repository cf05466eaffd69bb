"""Tests of what to run next."""
