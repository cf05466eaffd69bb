"""The contract of a storage service: from an address of its scheme to a storage."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.storage.address import Address
from orchestrator.storage.storage import Storage
from trials.plugins.registry import Registry

SERVICES: Registry[Callable[[Address], Storage]] = Registry("storage service")
