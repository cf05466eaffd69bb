"""Check the rows of a store against each other: duplicate keys, incomplete trials, rows without an evaluation.

What a completed trial must have follows from its own row (`check_records`), and for rows of older versions from its
spec and the other trials on its corpus. Whether it was asked for predictions does not follow from those: an older trial
without any is not a finding.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orchestrator.extras.store_care.report import OPTIONAL, Pair, Report, check_commits, differences, with_keys
from orchestrator.store.contents import COMPUTED, TableContents, checked_spec, repeated
from orchestrator.store.parts import NOTHING, Recorded
from orchestrator.store.schema import KEYS, UNOWNED, State
from trials.record import MISMATCHED
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch
from trials.tasks import TASKS

Row = dict[str, Any]
# As in trials.training.loop, which needs torch: larger splits have no predictions by default.
AUTO_WORDS = 100_000
_AGAIN = "it runs again at the next launch, once `repair` has removed its row"


def check_rows(report: Report) -> None:
    """Add what the rows of `report.tables` show."""
    for name in KEYS:
        _check_keys(name, report)
    _check_states(report)
    evidence = _evidence(report.tables)
    _check_ended(evidence, report)
    for name in ("tags", "predictions"):
        _check_owners(name, evidence, report)
    check_commits(report)


# --- Keys


def _check_keys(name: str, report: Report) -> None:
    table = report.tables[name]
    for key in KEYS[name]:
        if table.rows[key].null_count:
            numbers = [n for n, value in enumerate(table.rows[key].to_pylist()) if value is None]
            where = f"{name}/{table.part_of(numbers[0])}"
            report.find(where, f"{len(numbers)} rows have no {key}", "it is unknown what they belong to")
            report.remove_rows(name, numbers, f"no {key}")
    duplicates, n_same = repeated(table.rows, KEYS[name]), 0
    rows = iter(table.rows.take([n for at in duplicates for n in at]).to_pylist() if duplicates else [])
    conflicts: dict[Pair, list[list[Row]]] = {}
    for at in duplicates:
        group = [next(rows) for _ in at]
        compared = COMPUTED[name] if name in UNOWNED else ()  # two people may have measured the same
        if len({repr([row[column] for column in compared or row]) for row in group}) == 1:
            n_same += 1
            continue
        report.remove_rows(name, at[:-1], "a later row has the same key")
        if name in UNOWNED:
            where = f"{name.removesuffix('s')} {group[0][KEYS[name][0]]}"
            report.find(where, "two different rows have its id", "readers use the later one")
        else:
            conflicts.setdefault(_pair(group[0]), []).append(group)
    if n_same:
        report.notes.append(f"{name}: {n_same} rows are in two parts (left by a killed compaction); readers use one.")
    for pair, groups in conflicts.items():
        _check_conflict(name, pair, groups, report)


def _check_states(report: Report) -> None:
    states = report.tables["trials"].rows["state"].to_pylist()
    strange = [n for n, state in enumerate(states) if state not in set(State)]
    for n in strange:
        where = f"trials/{report.tables['trials'].part_of(n)}"
        report.find(where, f"{states[n]!r} is not a state", "nothing can be read; its trial runs again")
    report.remove_rows("trials", strange, "not a state")


def _check_conflict(name: str, pair: Pair, groups: Sequence[Sequence[Row]], report: Report) -> None:
    trial_id, attempt = pair
    computed = any(len({repr([row[c] for c in COMPUTED[name]]) for row in group}) > 1 for group in groups)
    what = "computed numbers" if computed else "times or machines"
    means = "readers use the later one"
    if computed and _remove_completed(pair, why := f"attempt {attempt} has two different rows in {name}", report):
        report.trials[trial_id] = why
        means = f"it is unknown which is right; {_AGAIN}"
    wrong = f"{len(groups)} rows of attempt {attempt} are duplicated in {name} with different {what}"
    report.find(f"trial {trial_id}", wrong, means)


def _remove_completed(pair: Pair, why: str, report: Report) -> bool:
    """Have an attempt's row of `trials` removed if it says completed; whether it does."""
    columns = (report.tables["trials"].rows[column].to_pylist() for column in ("trial_id", "attempt", "state"))
    numbers = [n for n, row in enumerate(zip(*columns, strict=True)) if row == (*pair, State.COMPLETED)]
    report.remove_rows("trials", numbers, why)
    return bool(numbers)


def _check_owners(name: str, evidence: Mapping[Pair, AttemptRows], report: Report) -> None:
    rows = report.tables[name].rows
    counts = rows.group_by(["trial_id", "attempt"]).aggregate([("split", "count")]).to_pylist()
    orphans = {_pair(row): row["split_count"] for row in counts if not evidence[_pair(row)].scores}
    for (trial_id, attempt), n in sorted(orphans.items(), key=str):
        wrong = f"attempt {attempt} has {n} rows in {name} and no evaluation"
        report.find(f"trial {trial_id}", wrong, "they would be mixed with those of another attempt of this number")
    numbers = [n for n, pair in enumerate(_columns(rows)) if pair in orphans] if orphans else []
    report.remove_rows(name, numbers, "their attempt has no evaluation")


# --- Completed trials


@dataclass
class AttemptRows:
    """What the tables hold of one attempt.

    Attributes:
        scores: The score of each evaluation, by step.
        labels: The number of gold labels in the per-tag table, by split.
        sentences: The number of sentences with predictions and the largest sentence number, by split.
    """

    scores: dict[int, float | None] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, tuple[int, int]] = field(default_factory=dict)


def _evidence(tables: Mapping[str, TableContents]) -> dict[Pair, AttemptRows]:
    """By attempt, for all that have rows in `epochs`, `tags` or `predictions`."""
    found: dict[Pair, AttemptRows] = defaultdict(AttemptRows)
    rows = {name: with_keys(tables[name].rows, name) for name in ("epochs", "tags", "predictions")}
    for trial_id, attempt, step, score in _columns(rows["epochs"], "step", "score"):
        found[trial_id, attempt].scores[step] = score  # of duplicates the later, as readers do
    tags = {
        (trial_id, attempt, split, tag): support
        for trial_id, attempt, split, level, tag, support in _columns(rows["tags"], "split", "level", "tag", "support")
        if level != "span"  # the words of a span are counted as tokens too
    }
    for (trial_id, attempt, split, _), support in tags.items():
        found[trial_id, attempt].labels[split] += support or 0
    keys = ["trial_id", "attempt", "split"]
    grouped = rows["predictions"].group_by(keys).aggregate([("sentence", "count_distinct"), ("sentence", "max")])
    for row in grouped.to_pylist():
        found[_pair(row)].sentences[row["split"]] = (row["sentence_count_distinct"], row["sentence_max"])
    return found


@dataclass(frozen=True)
class CompletedTrial:
    """A row of `trials` that says completed, its spec, and what the other tables hold of its attempt."""

    row: Row
    spec: TrialSpec
    evidence: AttemptRows

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it was scored on."""
        once = [name.endswith(MISMATCHED) for name, _ in self.row["test_metrics"] or ()]
        scored = {"test": self.row["test_score"] is not None, "mismatched": any(once)}
        return ("dev", *(split for split, is_scored in scored.items() if is_scored))

    @property
    def corpus(self) -> str:
        """Identifies all trials whose splits have the same numbers of labels and sentences."""
        return f"{self.spec.task} {json.dumps(self.spec.data.content(), sort_keys=True)}"

    @property
    def has_tags(self) -> bool:
        """Whether it must have a per-tag table: regressions and stores of the first version have none."""
        return not TASKS[self.spec.task].regression and self.row["best_metrics"] is not None

    def predicts_by_default(self, split: str) -> bool:
        """Whether a sweep without a `predictions` setting stores this split's."""
        return TASKS[self.spec.task].head == "tokens" and self.evidence.labels.get(split, 0) <= AUTO_WORDS


class CorpusSizes:
    """The number of labels and sentences of each split of each corpus, as most of its trials counted them."""

    def __init__(self, trials: Sequence[CompletedTrial]) -> None:
        self._counts: dict[tuple[str, str, str], Counter[int]] = {}
        for trial in trials:
            sentences = {split: n for split, (n, _) in trial.evidence.sentences.items()}
            for what, counts in (("labels", trial.evidence.labels), ("sentences", sentences)):
                for split, n in counts.items():
                    self._counts.setdefault((what, trial.corpus, split), Counter())[n] += 1

    def labels(self, trial: CompletedTrial, split: str) -> int:
        """0 if unknown."""
        return self._most_frequent("labels", trial, split)

    def sentences(self, trial: CompletedTrial, split: str) -> int:
        """0 if unknown."""
        sizes = trial.spec.data.sizes if trial.spec.data.folds is None else None  # of each fold others
        known = dict(zip(("train", "dev", "test"), sizes or (), strict=False))
        return known[split] if split in known else self._most_frequent("sentences", trial, split)

    def _most_frequent(self, what: str, trial: CompletedTrial, split: str) -> int:
        """The largest of several: rows may be lost, but none are invented."""
        counts = self._counts.get((what, trial.corpus, split), Counter({0: 1}))
        return max(counts, key=lambda n: (counts[n], n))


def _check_ended(evidence: Mapping[Pair, AttemptRows], report: Report) -> None:
    trials, differing = _completed(evidence, report), differences(report.tables)
    sizes = CorpusSizes(trials)
    for trial in trials:
        pair = _pair(trial.row)
        found = {table: wrong for table, (wrong, _) in differing.get(pair, {}).items()}
        if problems := [*_problems(trial, sizes)] or [wrong for table, wrong in found.items() if table not in OPTIONAL]:
            _reject(trial, "; ".join(problems), report)
            differing.pop(pair, None)
        elif trial.row["row_counts"] is None and (problems := list(_prediction_problems(trial, sizes))):
            differing[pair] = {"predictions": ("; ".join(problems), NOTHING)}
    numbers = {pair: n for n, pair in enumerate(_columns(report.tables["trials"].rows))}
    for pair, of_tables in differing.items():
        for table, (wrong, left) in of_tables.items():
            _lose(pair, numbers[pair], table, wrong, left, report)
    without = [trial for trial in trials if trial.row["row_counts"] is None and not trial.evidence.sentences]
    if without:
        report.notes.append(
            f"predictions: {len(without)} of {len(trials)} completed trials have none; no row says whether they should."
        )


def _lose(pair: Pair, number: int, table: str, wrong: str, left: Recorded, report: Report) -> None:
    """Report rows of an ended attempt that are lost, and have those that are left of an optional table removed."""
    means = f"`repair` records it, and the trial stays {report.tables['trials'].rows['state'][number].as_py()}"
    if table in OPTIONAL:
        means += f" without {table}"
        of_attempt = [n for n, owner in enumerate(_columns(report.tables[table].rows)) if owner == pair]
        report.remove_rows(table, of_attempt, wrong)
        left = NOTHING
    is_recorded = report.tables["trials"].rows["row_counts"][number].is_valid
    report.lose(pair[0], number, table, f"attempt {pair[1]}: {wrong}", means, left if is_recorded else None)


def _completed(evidence: Mapping[Pair, AttemptRows], report: Report) -> list[CompletedTrial]:
    """The completed trials whose specs are valid; the others are findings."""
    trials: dict[Pair, CompletedTrial] = {}
    for row in report.tables["trials"].rows.to_pylist():
        spec = checked_spec(row["spec"], row["trial_id"])
        if isinstance(spec, str):
            means = "its other rows cannot be checked; another version may have written it, so `repair` leaves it"
            report.find(f"trial {row['trial_id']}", spec, means)
        elif row["state"] == State.COMPLETED and spec.task in TASKS:
            trials[_pair(row)] = CompletedTrial(row, spec, evidence[_pair(row)])
    return list(trials.values())


def _reject(trial: CompletedTrial, wrong: str, report: Report) -> None:
    """Report a completed trial as incomplete, and have its row removed."""
    trial_id, attempt = _pair(trial.row)
    report.find(f"trial {trial_id}", f"attempt {attempt} is completed, but {wrong}", _AGAIN)
    report.trials[trial_id] = wrong
    _remove_completed((trial_id, attempt), wrong, report)


def _problems(trial: CompletedTrial, sizes: CorpusSizes) -> Iterator[str]:
    """What a completed trial lacks, or has and should not, each as a phrase."""
    yield from _evaluation_problems(trial)
    for split in trial.splits if trial.has_tags else ():
        n, wanted = trial.evidence.labels.get(split, 0), sizes.labels(trial, split)
        if n != wanted or not n:
            yield f"the per-tag table of {split} counts {n} of {wanted or 'all'} labels"


def _prediction_problems(trial: CompletedTrial, sizes: CorpusSizes) -> Iterator[str]:
    sentences = trial.evidence.sentences
    for split in trial.splits if sentences else ():
        n, last = sentences.get(split, (0, -1))
        wanted = sizes.sentences(trial, split) or last + 1
        expected = split in sentences or TASKS[trial.spec.task].head == "text" or trial.predicts_by_default(split)
        if expected and (n != wanted or last + 1 != n):
            yield f"{n} of {wanted or 'all'} sentences of {split} have predictions"


def _evaluation_problems(trial: CompletedTrial) -> Iterator[str]:
    optim, scores = trial.spec.optim, trial.evidence.scores
    wanted = evaluation_steps(steps_an_epoch(trial.spec) * optim.epochs, optim.epochs, trial.spec.eval_every)
    if sorted(scores) != wanted:
        n = len(scores.keys() & set(wanted))
        surplus = len(scores) - n
        yield f"{n} of {len(wanted)} evaluations are there" + (f", and {surplus} at other steps" * bool(surplus))
        return
    best, numbers = trial.row["best_score"], [s for s in scores.values() if s is not None and not math.isnan(s)]
    if len(numbers) == len(scores) and best != max(numbers):  # with a NaN there is no largest one
        yield f"its best score is {best}, the largest of its evaluations {max(numbers)}"


def _pair(row: Mapping[str, Any]) -> Pair:
    return row["trial_id"], row["attempt"]


def _columns(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Trial, attempt and these columns of every row."""
    return zip(*(rows[name].to_pylist() for name in ("trial_id", "attempt", *names)), strict=True)
