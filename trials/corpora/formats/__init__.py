"""Corpus formats: how files of each are read and laid out. Importing the package registers them."""

from trials.plugins.members import import_members

import_members(__name__)
