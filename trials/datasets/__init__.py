"""Corpora as they are read. Importing the package registers their formats."""

from trials.datasets import formats as formats
