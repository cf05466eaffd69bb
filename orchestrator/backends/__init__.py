"""What runs the trials of a launch. Importing the package registers the backends, one module for each."""

from orchestrator.backends.backend import BACKENDS as BACKENDS
from trials.plugins.members import import_members

import_members(__name__)
