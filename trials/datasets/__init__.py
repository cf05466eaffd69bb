"""Corpora as they are read. Importing the package registers the readers, one module for each format."""

from trials.plugins.members import import_members

import_members(__name__)
