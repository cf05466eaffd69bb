"""Freeze strategies and freezing rules: what to freeze before training, and when to freeze while training.

Importing the package registers the rules.
"""

from trials.freeze import gradient_norm as gradient_norm
from trials.freeze import plasticity as plasticity
from trials.freeze import schedule as schedule
