"""Tasks: reading, encoding and measuring. Importing the package registers them, one module for each kind."""

from trials.plugins.members import import_members
from trials.tasks.task import TASKS as TASKS

import_members(__name__)
