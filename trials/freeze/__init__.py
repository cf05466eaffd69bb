"""Freeze strategies: which layers keep their pretrained weights. Importing the package registers them."""

from trials.plugins.members import import_members

import_members(__name__)
