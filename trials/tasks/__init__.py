"""What is learnt: encode, score. Importing the package registers the tasks, one module a task."""

from trials.tasks import pos as pos
from trials.tasks.task import TASKS as TASKS
