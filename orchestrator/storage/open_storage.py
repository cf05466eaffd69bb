"""Open the storage of a folder or an address."""

from __future__ import annotations

from pathlib import Path

from orchestrator.storage.address import is_address, local_path, parse_address
from orchestrator.storage.storage import FolderStorage, Storage
from trials.errors import require


def open_storage(path: str | Path) -> Storage:
    """The storage of a folder or an address.

    Raises:
        ConfigError: not a valid address or path.
        StoreError: a library or setting that the service needs is missing.
    """
    text = str(path)
    if not is_address(text):
        return FolderStorage(local_path(path))
    address = parse_address(text)
    require("obstore", "s3", f"a store at {address.scheme}://")
    from orchestrator.storage.services import SERVICES  # a folder needs none

    return SERVICES[address.scheme](address)
