"""All rows of a store with the parts that they come from, and the parts that cannot be read.

Parts are read past all caches. Trials are read first and epochs last, the reverse of the order in which they are
committed, so everything that belongs to a trial that was read is read too, even while a sweep is running. `evidence` is
what a sweep shows, as the frame that the analyses take.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.config.yaml_document import faults
from orchestrator.storage.storage import BrokenError, NewerError, Storage
from orchestrator.store.parts import PartFolder, Recorded, is_part
from orchestrator.store.schema import (
    ALL_TABLES,
    METRICS,
    UNOWNED,
    WRONG_DIGEST,
    digest,
    is_intact,
    promised,
    read_intact,
    stamp_of,
    stamped,
)
from trials.errors import ConfigError, NothingMatchedError, StoreError
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd


# Everything that belongs to a trial is committed before its own row, and read after it: whoever sees the row sees all.
COMMIT_ORDER = ("epochs", "tags", "predictions", "contributions", "trials", "commits")
READ_ORDER = (*reversed(COMMIT_ORDER), *UNOWNED)

# What two runs of one trial must agree in; the other columns are measured, or say where it ran.
COMPUTED = {
    "epochs": ("epoch", "train_loss", "step_losses", "dev_loss", "score", *METRICS, "examples_seen", "lr"),
    "trials": (
        "state", "total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score",
        "best_metrics", "test_metrics",
    ),
    "tags": ("support", "predicted", "correct"),
    "predictions": ("forms", "gold", "predicted", "probability"),
    "contributions": ("values",),
    "probes": ("score", "control_score", "selectivity", "n_places"),
    "drifts": ("epoch", "weight_change", "cka"),
    "commits": (),
}  # fmt: skip


@dataclass(frozen=True)
class BrokenPart:
    """A part that cannot be read.

    Attributes:
        newer: Whether it is intact, but of a newer version.
    """

    name: str
    wrong: str
    newer: bool


@dataclass(frozen=True)
class TableContents:
    """The rows of a table.

    Attributes:
        names: The readable parts, oldest first.
        starts: The index in `rows` of each part's first row.
        rows: The rows of these parts, in order; columns of `schema`.
        broken: The other parts.
        strange: Files that are not parts.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    rows: pa.Table
    broken: tuple[BrokenPart, ...]
    strange: tuple[str, ...]
    n_bytes: int

    def part_of(self, row: int) -> str:
        """The part that contains a row."""
        return self.names[bisect_right(self.starts, row) - 1]


def read_contents(storage: Storage) -> dict[str, TableContents]:
    """Every table. Raises StoreError."""
    return {name: read_table(storage.at(name), name) for name in READ_ORDER}


def read_table(storage: Storage, table: str) -> TableContents:
    """One table. Raises as `read_contents` does."""
    parts = PartFolder(storage, ALL_TABLES[table])
    sizes, read = parts.read_each(lambda name: read_part(parts, name))
    tables = {name: part for name, part in read.items() if isinstance(part, pa.Table)}
    broken = tuple(part for part in read.values() if isinstance(part, BrokenPart))
    starts = tuple(accumulate((len(part) for part in tables.values()), initial=0))[:-1]
    rows = pa.concat_tables([parts.schema.empty_table(), *tables.values()])
    strange = tuple(name for name in parts.storage.files() if not is_part(name))
    return TableContents(tuple(tables), starts, rows, broken, strange, sum(sizes.values()))


def read_part(parts: PartFolder, name: str, columns: Sequence[str] | None = None) -> pa.Table | BrokenPart:
    """The rows of a part, with all columns or some; a `BrokenPart` if it cannot be read.

    Raises:
        FileNotFoundError: it no longer exists.
    """
    try:
        content = pa.py_buffer(parts.storage.read(name))
    except FileNotFoundError:
        raise
    except OSError as error:
        return BrokenPart(name, f"cannot be read ({error.strerror or error})", newer=False)
    try:
        return parts.decoded(name, content, columns=columns)
    except BrokenError as error:
        return BrokenPart(name, error.wrong, newer=isinstance(error, NewerError))


def repeated(rows: pa.Table, keys: Sequence[str]) -> list[list[int]]:
    """For each key that occurs more than once, the indices of its rows, ascending."""
    names = list(keys)
    numbered = rows.select(names).append_column("at", pa.array(range(len(rows)), pa.int64()))
    counts = numbered.group_by(names).aggregate([("at", "count")])
    many = counts.filter(pc.greater(counts["at_count"], 1)).select(names)
    if not len(many):  # the usual case; lists of all rows take memory
        return []
    groups = numbered.join(many, names, join_type="inner").group_by(names).aggregate([("at", "list")])
    return sorted(sorted(at) for at in groups["at_list"].to_pylist())


def latest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key, the later of duplicates, in the order of the rows."""
    doubles = {row for at in repeated(rows, keys) for row in at[:-1]}
    return rows if not doubles else rows.take(pa.array([n for n in range(len(rows)) if n not in doubles], pa.int64()))


# Trained weights of completed trials, for sweeps with `keep: weights`: one object per trial, named by its content.
#
#     <store>/weights/<trial_id>-<digest>.safetensors
#
# It holds the tensors that the trial trained, at its best epoch. The frozen ones are the pretrained model's.

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


# The plans of sweeps in a store: one file per launch that declared something new, and cells that a search suggested.
#
#     <store>/sweeps/<sweep>/plan-<time>-<digest>.json           all trials known at that time
#     <store>/sweeps/<sweep>/suggested-<time>-<digest>.json      more cells, with the sampler's parameters (`decisions`)
#
# The trials of a sweep are those of its newest plan and of the cells suggested after it. The times in their names and
# in the plans never go back, even if the machine's clock is set back.

SWEEPS = "sweeps"


@dataclass(frozen=True)
class SweepPlan:
    """The trials that one launch of a sweep declared.

    Attributes:
        time: Unix time of the launch.
        source: The YAML file it came from.
        trials: (trial_id, spec as JSON values) in the sweep's order.
        decisions: Number of the first decision of its search that it does not include.
        goal: What the sweep asks, as of `decision_plan.DecisionPlan.as_json`; empty for the defaults.
    """

    name: str
    time: float
    source: str
    trials: tuple[tuple[str, dict[str, Any]], ...]
    decisions: int = 0
    goal: dict[str, Any] = field(default_factory=dict)

    @property
    def asks(self) -> DecisionPlan:
        """What its answers go by."""
        return DecisionPlan.of_json(self.goal)


def is_plan(name: str) -> bool:
    """Whether a file of this name is a plan."""
    return name.startswith("plan-") and name.endswith(".json")


def write_plan(folder: Storage, plan: SweepPlan, *, after_ns: int = 0) -> None:
    """Write a plan, newer than all in its folder and than `after_ns`. Raises StoreError."""
    stamp_ns, plan = stamped_plan(folder, plan, after_ns)
    content = (json.dumps(as_json(plan), indent=1) + "\n").encode()
    folder.write(stamped("plan", stamp_ns, content, "json"), content)


def as_json(plan: SweepPlan) -> dict[str, Any]:
    """A plan as its file has it."""
    content = {"name": plan.name, "time": plan.time, "source": plan.source, "trials": plan.trials}
    later = {"decisions": plan.decisions, "goal": plan.goal}
    return content | {name: value for name, value in later.items() if value}


def stamped_plan(folder: Storage, plan: SweepPlan, after_ns: int = 0) -> tuple[int, SweepPlan]:
    """A time newer than all in a folder and than `after_ns`, in nanoseconds, and the plan, of that time if need be."""
    after_ns = max(after_ns, newest_stamp(folder))
    stamp_ns = time.time_ns()
    if stamp_ns <= after_ns:  # the clock was set back
        stamp_ns = after_ns + 1_000  # as float seconds, as in `SweepPlan.time`, a nanosecond may be lost
        plan = replace(plan, time=stamp_ns / 1e9)
    return stamp_ns, plan


def newest_stamp(folder: Storage) -> int:
    """The time of the newest plan or suggested cell in a sweep's folder, in nanoseconds; 0 if there is none."""
    kinds = ("plan-", "suggested-")
    return max((stamp_of(name) for name in folder.files() if name.startswith(kinds)), default=0)


def read_plan(folder: Storage, name: str) -> SweepPlan:
    """Read a plan. Raises BrokenError."""
    path = f"{folder}/{name}"
    try:
        return decoded_plan(path, read_intact(folder, name).to_pybytes())
    except OSError as error:
        raise broken_plan(path, error) from error


def decoded_plan(path: str, content: bytes) -> SweepPlan:
    """Decode a plan from the bytes of its file. Raises BrokenError."""
    try:
        return plan_of(intact_json(path, content))
    except DECODING_ERRORS as error:
        raise broken_plan(path, error) from error


def intact_json(path: str, content: bytes) -> Any:
    """What the bytes of a file say. Raises ValueError."""
    if not is_intact(path, content):
        raise ValueError(WRONG_DIGEST)
    return json.loads(content.decode("utf-8"))


DECODING_ERRORS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def plan_of(content: Any) -> SweepPlan:
    """A plan from JSON values. Raises one of `DECODING_ERRORS`."""
    trials = tuple((str(trial_id), dict(spec)) for trial_id, spec in content["trials"])
    decisions = int(content.get("decisions", 0))
    goal = dict(content.get("goal", {}))
    DecisionPlan.of_json(goal)
    return SweepPlan(str(content["name"]), float(content["time"]), str(content["source"]), trials, decisions, goal)


def broken_plan(path: str, error: Exception) -> BrokenError:
    """The error of a plan or suggested cells that cannot be read."""
    return BrokenError(
        path, f"not a readable plan ({error})", "Run `permafrost store repair`; the next launch writes the plan again"
    )


# Specs as they are stored in plans and rows, parsed and validated.

LISTING = "permafrost status --trials"  # the command that lists the trials of a store


def stored_spec(content: str | Mapping[str, Any] | None, trial_id: str) -> TrialSpec:
    """The spec of a trial, from a plan or from the `spec` column of its row. Raises StoreError."""
    try:
        return _parsed(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        place = ".".join(map(str, ("spec", *first.path)))
        raise StoreError(
            f"trial {trial_id!r} of the store: {place}: {first.text.removesuffix('.')}. "
            "Its row or plan is broken, or of a newer version."
        ) from error


def planned_specs(plan: SweepPlan) -> list[TrialSpec]:
    """The trials of a plan, in its order. Raises StoreError: One cannot be read."""
    return [stored_spec(spec, trial_id) for trial_id, spec in plan.trials]


def checked_spec(content: object, trial_id: str) -> TrialSpec | str:
    """The spec, or what is wrong with it: not valid, or that of another trial."""
    try:
        spec = _parsed(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        return f"its spec cannot be read by this version ({'.'.join(map(str, first.path))}: {first.text})"
    except ValueError as error:
        return f"its spec cannot be read by this version ({str(error).partition(chr(10))[0]})"
    return spec if spec.trial_id == trial_id else f"its spec belongs to trial {spec.trial_id}"


def only_match(prefix: str, ids: Iterable[str], what: str, store: str, listing: str) -> str:
    """The id that begins with a prefix.

    Raises:
        NothingMatchedError: none does.
        ConfigError: several do.
    """
    matches = sorted({i for i in ids if i.startswith(prefix)})
    if not matches:
        raise NothingMatchedError(f"no {what} {prefix!r} in {store}. `{listing}` lists them.")
    if len(matches) > 1:
        raise ConfigError(f"{prefix!r} matches {len(matches)} {what}s: {', '.join(matches[:4])}. Give more digits.")
    return matches[0]


def _parsed(content: object) -> TrialSpec:
    return TrialSpec.model_validate_json(content) if isinstance(content, str) else TrialSpec.model_validate(content)


SENTENCE_COLUMNS = {"sentences": "values", "documents": "documents", "words": "words"}
"""Columns of a frame with a value a sentence, and what the store calls them (`schema.CONTRIBUTIONS`)."""


class Evidence(NamedTuple):
    """The trials of a sweep.

    Attributes:
        frame: As of `trial_frame`, with the `SENTENCE_COLUMNS` of dev.
        specs: One spec of each cell.
    """

    frame: pd.DataFrame
    specs: dict[str, TrialSpec]


def evidence_of(specs: Sequence[TrialSpec], trials: pa.Table, contributions: pa.Table) -> Evidence:
    """The planned trials of a sweep, with what is stored of them: rows with `TRIAL_COLUMNS`, and contributions."""
    from orchestrator.analysis.trial_frame import trial_frame, with_sentences  # loads pandas

    frame = with_sentences(trial_frame(specs, trials.to_pylist()), sentence_columns(contributions, "dev"))
    return Evidence(frame, {spec.cell_id: spec for spec in reversed(specs)})


def sentence_columns(contributions: pa.Table, split: str) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """For `trial_frame.with_sentences`: its columns by trial id, from rows of `schema.CONTRIBUTIONS`."""
    of_split = contributions.filter(pc.equal(contributions["split"], split))
    columns = dict[str, dict[str, npt.NDArray[Any]]]()
    for name, column in SENTENCE_COLUMNS.items():
        rows = of_split.filter(pc.is_valid(of_split[column]))
        lists = zip(rows["trial_id"].to_pylist(), rows[column], strict=True)
        columns[name] = {trial_id: values.values.to_numpy() for trial_id, values in lists}
    return columns


def all_sentences(contributions: pa.Table) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
    """All that is stored of sentences: trial id -> split -> those of `SENTENCE_COLUMNS` that are known."""
    by_trial = dict[str, dict[str, dict[str, npt.NDArray[Any]]]]()
    for split in pc.unique(contributions["split"]).to_pylist():
        for name, of_trials in sentence_columns(contributions, split).items():
            for trial_id, values in of_trials.items():
                by_trial.setdefault(trial_id, {}).setdefault(split, {})[name] = values
    return by_trial
