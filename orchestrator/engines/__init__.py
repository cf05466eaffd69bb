"""What runs the trials of a launch. Importing the package registers the engines, one module for each."""

from orchestrator.execution.engine import ENGINES as ENGINES
from trials.plugins.members import import_members

import_members(__name__)
