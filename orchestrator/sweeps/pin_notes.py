"""What names without a version mean now, and what the last launch of the sweep had under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from trials.draft import Lookup
from trials.spec import TrialSpec

_CONTENT = {"model": "revision", "data": "fingerprint"}  # of a spec: the digest of the files


def pin_notes(sweep: str, trials: Sequence[TrialSpec], store: ResultStore, lookup: Lookup) -> Iterator[str]:
    """A sentence for each name that was looked up; it names what the sweep's last launch used, if that was another.

    Raises:
        StoreError: The store cannot be read.
    """
    if not lookup.resolved:
        return
    earlier: dict[str, dict[str, Any]] = {}  # by source: the first trial of it, and how many there are
    for plan in store.sweeps():
        for _, spec in plan.trials if plan.name == sweep else ():
            for key in _CONTENT:
                if source := spec[key].get("source"):
                    entry = earlier.setdefault(source, {"content": spec[key][_CONTENT[key]], "n": 0})
                    entry["n"] += 1
    now = {spec.model.source: spec.model.revision for spec in trials}
    now |= {spec.data.source: spec.data.fingerprint for spec in trials}
    for source, phrase in lookup.resolved.items():
        name = source.rpartition("@")[0]
        moved = [old for old in earlier if old.rpartition("@")[0] == name] if source not in earlier else []
        if not moved:
            yield f"{phrase}. Write it with the version to keep this one."
        for old in moved:
            version = old.rpartition("@")[2]
            if earlier[old]["content"] == now.get(source):
                yield f"{phrase}; the last launch had {version}, whose files are the same."
            else:
                yield (
                    f"{phrase}; the last launch had {version}, which makes other settings: its "
                    f"{counted(earlier[old]['n'], 'trial')} will not be mixed with these. Write {old} to resume it."
                )
