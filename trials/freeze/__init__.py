"""Freeze strategies and freezing rules: what to freeze before training, and when to freeze while training.

Importing the package registers the rules.
"""

from trials.freeze import rules as rules
