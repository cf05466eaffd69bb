"""How far the set-up of trials is, from workers to the driver, in the key-value store of the cluster's head.

A worker is inside one call for the whole set-up, so Tune cannot carry it. Nothing is written where set-ups are short,
and nothing is read while every running trial has a record: trials of warm workers cost no request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict

from ray.exceptions import RayError
from ray.experimental import internal_kv

from trials.cache.set_up import EVERY_S, SetUpWork

_NAMESPACE = "permafrost-set-up"


def post(trial_id: str, attempt: int, work: SetUpWork) -> None:
    """Write how far an attempt is, in its worker. It is lost if the head does not answer."""
    with suppress(RayError):
        internal_kv._internal_kv_put(_key(trial_id, attempt), json.dumps(asdict(work)), namespace=_NAMESPACE)


class SetUpBoard:
    """What attempts without a record have written, in the driver."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read: dict[tuple[str, int], float] = {}  # attempt -> when it started or was last read

    def started(self, trial_id: str, attempt: int) -> None:
        """Look for what this attempt writes."""
        self._read[trial_id, attempt] = self._clock()

    def over(self, trial_id: str) -> None:
        """Look for it no longer: the trial has a record, or has ended."""
        for key in [key for key in self._read if key[0] == trial_id]:
            del self._read[key]

    def new(self) -> list[tuple[str, SetUpWork]]:
        """Trials and how far they are, where that was written since the last call; read every `EVERY_S` seconds."""
        due = [key for key, last in self._read.items() if self._clock() - last >= EVERY_S]
        if not due:
            return []
        self._read |= dict.fromkeys(due, self._clock())
        with suppress(RayError):
            return list(_taken(due))
        return []


def _taken(attempts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, SetUpWork]]:
    written = set(internal_kv._internal_kv_list("", namespace=_NAMESPACE))
    for trial_id, attempt in attempts:
        key = _key(trial_id, attempt)
        if key.encode() in written:
            content = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
            internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
            if content is not None:
                yield trial_id, SetUpWork(**json.loads(content))


def _key(trial_id: str, attempt: int) -> str:
    return f"{trial_id}/{attempt}"
