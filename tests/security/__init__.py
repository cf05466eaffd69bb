"""Attacks on what is promised in the README's section on security, and a scan of the code for what breaks it."""
