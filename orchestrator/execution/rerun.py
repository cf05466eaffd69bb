"""Run one trial of a store again, in this process, to reproduce its numbers or its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.execution.trial_rows import epoch_row
from orchestrator.store import ResultStore
from orchestrator.store.schema import COMPUTED, EPOCHS
from orchestrator.store.stored_specs import LISTING, stored_spec
from trials.errors import ConfigError, NothingMatchedError
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.starter import model_path
from trials.state import State

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A number that was not reproduced.

    Attributes:
        stored, found: The value in the store and that of the new run; None if there is no such evaluation.
    """

    step: int
    column: str
    stored: Any
    found: Any


def find_trial(store: ResultStore, trial_id: str) -> tuple[TrialSpec, Row]:
    """The spec and row of a completed trial, by its id, a prefix of it, or its name, which ends with one.

    The spec names this installation's starter set where the trial's own is gone, as that of a submitted sweep is when
    the cluster has ended; its digests are checked when the trial runs.

    Raises:
        NothingMatchedError: no completed trial is called so.
        ConfigError: several trials have it.
    """
    rows = {row["trial_id"]: row for row in store.trials().to_pylist()}
    row = rows[_only_match(trial_id.rpartition("_")[2], rows, store.address)]
    if row["state"] != State.COMPLETED:
        raise NothingMatchedError(
            f"trial {row['trial_id']} ended {row['state']}. Only a completed one can be run again."
        )
    return _with_starter_set(stored_spec(row["spec"], row["trial_id"])), row


def _only_match(prefix: str, ids: Iterable[str], store: str) -> str:
    """The id that begins with a prefix."""
    matches = sorted({i for i in ids if i.startswith(prefix)})
    if not matches:
        raise NothingMatchedError(f"no trial {prefix!r} in {store}. `{LISTING}` lists them.")
    if len(matches) > 1:
        raise ConfigError(f"{prefix!r} matches {len(matches)} trials: {', '.join(matches[:4])}. Give more digits.")
    return matches[0]


def _with_starter_set(spec: TrialSpec) -> TrialSpec:
    def here(path: str) -> str:
        own, rest = model_path().parent, path.rpartition("/trials/starter/")[2]
        return str(own / rest) if rest != path and not Path(path).exists() and (own / rest).exists() else path

    splits = {name: tuple(map(here, getattr(spec.data, name))) for name in ("train", "dev", "test", "mismatched")}
    changes = {
        "data": spec.data.model_copy(update=splits),
        "model": spec.model.model_copy(update={"path": here(spec.model.path)}),
    }
    return spec.model_copy(update=changes)


def rerun(spec: TrialSpec, row: Row, on_record: Callable[[EpochRecord], None]) -> tuple[list[Row], Any]:
    """Run a trial with the same number of threads; its epoch rows and its result (`trials.run.Trained`).

    It runs on the kind of device that its row names, whatever this machine has besides; where there is no GPU, on the
    CPU, where its last digits may be others.
    """
    import torch

    from trials.hardware.device import default_device
    from trials.run import run_trial

    on_cpu = str(row.get("device") or "cpu").startswith("cpu")
    device = torch.device("cpu") if on_cpu else default_device()

    torch.set_num_threads(row.get("threads") or 1)
    parts, rows = row.get("accumulation") or 1, list[Row]()
    trial = run_trial(spec, device=device, predictions="none", accumulation=parts)
    while True:
        try:
            record = next(trial)
        except StopIteration as end:
            # As a store returns them: `step_losses` of a regression are rounded there.
            return pa.Table.from_pylist(rows, EPOCHS).to_pylist(), end.value
        on_record(record)
        rows.append(epoch_row(spec, row["attempt"], record))


def differences(stored: list[Row], found: list[Row]) -> list[Difference]:
    """Every computed number that is not bit-identical, evaluation by evaluation."""
    by_step = {row["step"]: row for row in found}
    differing = []
    for row in stored:
        other = by_step.pop(row["step"], None)
        if other is None:
            differing.append(Difference(row["step"], "step", row["step"], None))
            continue
        pairs = [(column, row.get(column), other.get(column)) for column in ("step", *COMPUTED["epochs"])]
        differing += [Difference(row["step"], name, a, b) for name, a, b in pairs if not _same(a, b)]
    return differing + [Difference(step, "step", None, step) for step in by_step]


def _same(stored: Any, found: Any) -> bool:
    if isinstance(stored, list):
        return len(stored) == len(found) and all(a == b for a, b in zip(stored, found, strict=True))
    return bool(stored == found)
