"""What decides which trials of a plan run. Importing the package registers the kinds, one module for each."""

from orchestrator.search.kinds.kind import decides as decides
from orchestrator.search.kinds.kind import source_of as source_of
from trials.plugins.members import import_members

import_members(__name__)
