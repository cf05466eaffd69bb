"""Storage that is no folder, by the scheme of its addresses. Importing the package registers the services beside it."""

from collections.abc import Callable

from orchestrator.storage.address import Address
from orchestrator.storage.storage import Storage
from trials.plugins.members import import_members
from trials.plugins.registry import Registry

SERVICES: Registry[Callable[[Address], Storage]] = Registry("storage service")

import_members(__name__)
