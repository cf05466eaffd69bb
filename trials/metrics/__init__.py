"""What predictions are scored by. Importing the package registers the metrics, one module for each kind.

Labels are integer ids into names; -1 is no prediction, which is never correct.
"""

from trials.plugins.members import import_members

import_members(__name__)
