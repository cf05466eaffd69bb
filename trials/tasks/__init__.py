"""Tasks: reading, encoding and measuring. Importing the package registers them, one module for each kind."""

from trials.tasks import classification as classification
from trials.tasks import tagging as tagging
from trials.tasks.task import TASKS as TASKS
