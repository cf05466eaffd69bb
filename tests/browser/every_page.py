"""Every page of a dashboard, and the screens and colour schemes in which it must be fit to be seen."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards.data.frames import Snapshot
from dashboards.views.registry import VIEWS

SIZES = ((1440, 900), (1024, 768), (390, 844))
SCHEMES = ("light", "dark")


def paths(snapshot: Snapshot) -> Iterator[str]:
    """The views in the order of the navigation, and of the newest sweep the pages of a trial and of two compared."""
    yield from VIEWS
    trials = next(iter(snapshot.sweeps.values())).trials
    completed = trials.loc[trials["state"] == "completed", "trial_id"]
    yield f"/trial/{completed.iloc[0]}"
    yield f"/compare?trials={','.join(completed[:2])}"
