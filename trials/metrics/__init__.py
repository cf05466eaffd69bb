"""What predictions are scored by. Importing the package registers the metrics, one module for each kind.

Labels are integer ids into names; -1 is no prediction, which is never correct.
"""

from trials.metrics import task_metrics as task_metrics
