"""Tensors of trials, next to the rows: one safetensors object a trial, with the digest of its content in its name.

    <store>/checkpoints/<trial_id>-<attempt>-<step>-<digest>.safetensors    of a running trial
    <store>/weights/<trial_id>-<digest>.safetensors                         of a completed one, with `keep: weights`

Weights are the tensors that the trial trained, at its best epoch; the frozen ones are the pretrained model's.
"""

from __future__ import annotations

import re

from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import Storage
from orchestrator.store.schema import CHECKPOINTS, digest, is_intact
from trials.errors import StoreError

CHECKPOINT_FILE = re.compile(r"([0-9a-f]{16})-\d{6,}-\d{12,}-[0-9a-f]{16}\.safetensors")
WEIGHTS = "weights"  # the folder
WEIGHTS_FILE = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}\.safetensors")
ROOM_BYTES = 16_000_000  # left free by checkpoints, so that rows, which commit a trial, can still be written


class StoredCheckpoints:
    """The checkpoints of one trial: a `trials.training.checkpoint.CheckpointStorage`.

    Attempt and step are padded with zeros, so the newest sorts last, and a late worker of an older attempt can only add
    older names. A checkpoint whose bytes do not match its digest counts as absent: resuming from it would give other
    numbers.
    """

    def __init__(self, store: str, trial_id: str, attempt: int) -> None:
        self._storage, self._trial_id, self._attempt = open_storage(store).subfolder(CHECKPOINTS), trial_id, attempt

    def load(self) -> bytes | None:
        """The newest checkpoint of this attempt and earlier ones."""
        for name in reversed(self._names()):
            try:
                content = self._storage.read(name)
            except FileNotFoundError:  # another process has replaced it by a newer one
                continue
            if is_intact(name, content):
                return content
        return None

    def save(self, step: int, content: bytes) -> None:
        """Save a new checkpoint, then delete earlier ones.

        Raises:
            StoreError: it cannot be written, or would leave no room for rows, which trials need more.
        """
        free = self._storage.free_bytes()
        if free is not None and free < len(content) + ROOM_BYTES:
            raise StoreError(
                f"{self._storage}: no room for a checkpoint of {len(content) / 1e6:.1f} MB ({free / 1e6:.1f} MB are "
                f"free, and {ROOM_BYTES / 1e6:.0f} MB are left for rows)."
            )
        old = self._names()
        name = f"{self._trial_id}-{self._attempt:06}-{step:012}-{digest(content)}.safetensors"
        self._storage.write(name, content)
        for old_name in old:
            if old_name != name:
                self._storage.delete(old_name)

    def _names(self) -> list[str]:
        """The files of this attempt and earlier ones, oldest first."""
        return list(self._storage.files(f"{self._trial_id}-", f"{self._trial_id}-{self._attempt + 1:06}"))


def forget(store: Storage, trial_ids: set[str]) -> None:
    """Delete the checkpoints of trials that have ended."""
    storage = store.subfolder(CHECKPOINTS)
    for name in storage.files():
        if name.partition("-")[0] in trial_ids:
            storage.delete(name)


def save_weights(store: Storage, trial_id: str, content: bytes) -> None:
    """Save the weights of a trial, then delete the weights of its earlier attempts. Raises StoreError."""
    folder, old = store.subfolder(WEIGHTS), weights_of(store).get(trial_id, [])
    name = f"{trial_id}-{digest(content)}.safetensors"
    folder.write(name, content)
    for old_name in old:
        if old_name != name:
            folder.delete(old_name)


def find_weights(store: Storage, trial_id: str) -> bytes | None:
    """The weights of a trial; None if the store has none, or only a broken file. Raises StoreError."""
    for name in weights_of(store).get(trial_id, []):
        content = store.subfolder(WEIGHTS).read(name)
        if is_intact(name, content):
            return content
    return None


def weights_of(store: Storage) -> dict[str, list[str]]:
    """The names of the files of each trial that has any."""
    names: dict[str, list[str]] = {}
    for name in store.subfolder(WEIGHTS).files():
        if match := WEIGHTS_FILE.fullmatch(name):
            names.setdefault(match[1], []).append(name)
    return names
