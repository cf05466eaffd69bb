"""What to read before a sweep runs. Importing the package registers the notes, one module for each subject."""

from orchestrator.sweeps.notes.note import Noted as Noted
from trials.plugins.members import import_members

import_members(__name__)
