"""From a folder or an address to its storage."""

from __future__ import annotations

from pathlib import Path

from orchestrator.storage.address import is_address, parse_address
from orchestrator.storage.storage import FolderStorage, Storage


def open_storage(path: str | Path) -> Storage:
    """The place of a folder or an address.

    Raises:
        ConfigError: an address that is none, or says what it may not.
        StoreError: what is needed to reach it is not installed.
    """
    text = str(path)
    if not is_address(text):
        return FolderStorage(Path(path).expanduser().resolve())
    address = parse_address(text)
    from orchestrator.storage.connection import connect  # a local store needs none of it
    from orchestrator.storage.object_storage import ObjectStorage

    return ObjectStorage(connect(address), address)
