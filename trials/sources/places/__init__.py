"""Where corpora and models come from, one module each. Importing the package registers them."""

from trials.plugins.members import import_members

import_members(__name__)
