"""A driver that runs a sweep, as far as others can see."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from orchestrator.claims import CLAIMS, Claims, Membership
from orchestrator.storage.storage import Storage


@contextlib.contextmanager
def running(storage: Storage, sweep: str, *trial_ids: str) -> Iterator[Membership]:
    """Be present in a store as the driver of a sweep that has claimed these trials."""
    with Membership(storage, sweep, say=print) as membership:
        claims = Claims(storage.subfolder(CLAIMS), membership)
        claims.refresh()
        for trial_id in trial_ids:
            claims.take(trial_id)
        yield membership
