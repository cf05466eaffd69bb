"""What is learnt: read, encode, measure. Importing the package registers the tasks, one module a kind."""

from trials.tasks import classification as classification
from trials.tasks import tagging as tagging
from trials.tasks.task import TASKS as TASKS
