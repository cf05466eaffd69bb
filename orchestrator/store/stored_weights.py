"""Trained weights of completed trials, for sweeps with `keep: weights`: one object per trial, named by its content.

    <store>/weights/<trial_id>-<digest>.safetensors

It holds the tensors that the trial trained, at its best epoch. The frozen ones are the pretrained model's.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from orchestrator.storage.storage import Storage
from orchestrator.store.row_digests import Recorded
from orchestrator.store.schema import (
    digest,
    is_intact,
    promised,
)

WEIGHTS = "weights"  # the folder
FILE = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}\.safetensors")


def save_weights(store: Storage, trial_id: str, content: bytes) -> None:
    """Save the weights of a trial, then delete those of its earlier attempts. Raises StoreError."""
    folder, old = store.at(WEIGHTS), weights_of(store).get(trial_id, [])
    name = f"{trial_id}-{digest(content)}.safetensors"
    folder.write(name, content)
    for old_name in old:
        if old_name != name:
            folder.delete(old_name)


def find_weights(store: Storage, trial_id: str) -> bytes | None:
    """The weights of a trial; None if the store has none, or only a broken file. Raises StoreError."""
    for name in weights_of(store).get(trial_id, []):
        content = store.at(WEIGHTS).read(name)
        if is_intact(name, content):
            return content
    return None


def recorded_weights(store: Storage, trial_ids: Collection[str]) -> dict[str, Recorded]:
    """What the rows of these trials record of their weights, for those that have any."""
    names = weights_of(store) if trial_ids else {}
    return {i: Recorded(1, promised(names[i][-1]) or "") for i in trial_ids if i in names}


def weights_of(store: Storage) -> dict[str, list[str]]:
    """The names of the files of each trial that has any."""
    names: dict[str, list[str]] = {}
    for name in store.at(WEIGHTS).files():
        if match := FILE.fullmatch(name):
            names.setdefault(match[1], []).append(name)
    return names
