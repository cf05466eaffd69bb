"""What predictions are scored by. Importing the package registers the metrics, one module for each kind.

Labels are integer ids into names; -1 is no prediction, which is never correct.
"""

# The order of these imports is that of the store's columns.
# isort: off
from trials.metrics import tokens as tokens
from trials.metrics import spans as spans
from trials.metrics import classes as classes
from trials.metrics import conlleval as conlleval
