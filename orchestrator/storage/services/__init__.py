"""Storage that is no folder. Importing the package registers the services by the scheme of their addresses."""

from orchestrator.storage.services.service import SERVICES as SERVICES
from trials.plugins.members import import_members

import_members(__name__)
