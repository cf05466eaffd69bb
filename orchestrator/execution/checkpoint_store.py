"""Where running trials are kept: beside the rows of their store, one object a checkpoint.

    <store>/checkpoints/<trial_id>-<attempt>-<step>-<digest>.safetensors

Attempt and step are padded with zeros, so the newest has the last name. A late worker of an older attempt can only add
names that are older. One whose bytes are not those of its digest counts as not there: a trial that went on from it
would give other numbers.
"""

from __future__ import annotations

from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import Storage
from orchestrator.store.names import CHECKPOINTS, digest, is_intact


class StoredCheckpoints:
    """The checkpoints of one trial: a `trials.training.checkpoint.CheckpointStorage`."""

    def __init__(self, store: str, trial_id: str, attempt: int) -> None:
        self._storage, self._trial_id, self._attempt = open_storage(store).at(CHECKPOINTS), trial_id, attempt

    def load(self) -> bytes | None:
        """The newest of this attempt and those before."""
        for name in reversed(self._names()):
            try:
                content = self._storage.read(name)
            except FileNotFoundError:  # a newer one of another process has replaced it
                continue
            if is_intact(name, content):
                return content
        return None

    def save(self, step: int, content: bytes) -> None:
        """Keep a new one, then take those before away. Raises StoreError."""
        old = self._names()
        name = f"{self._trial_id}-{self._attempt:06}-{step:012}-{digest(content)}.safetensors"
        self._storage.write(name, content)
        for one in old:
            if one != name:
                self._storage.delete(one)

    def _names(self) -> list[str]:
        last = f"{self._trial_id}-{self._attempt + 1:06}"
        return [name for name in names_of(self._storage, self._trial_id) if name < last]


def names_of(storage: Storage, trial_id: str) -> list[str]:
    """All checkpoints of a trial, the oldest first."""
    return sorted(name for name in storage.files() if name.startswith(f"{trial_id}-"))


def forget(store: Storage, trial_ids: set[str]) -> None:
    """Take the checkpoints of trials away that are over."""
    storage = store.at(CHECKPOINTS)
    for name in storage.files():
        if name.partition("-")[0] in trial_ids:
            storage.delete(name)
