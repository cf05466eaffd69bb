"""The rows of a store against each other: keys, completed trials, rows of nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.store.contents import KEYS, BrokenPart, TableContents, repeated
from orchestrator.store.diagnosis import Diagnosis
from orchestrator.store.schema import METRICS, State
from orchestrator.store.wholeness import (
    Completed,
    Corpora,
    Facts,
    Pair,
    completed,
    gather,
    lost_predictions,
    missing,
    spec_of,
)

Row = dict[str, Any]

# What two runs of one trial agree in; the other columns are measured or say where it ran.
COMPUTED = {
    "epochs": ("epoch", "train_loss", "step_losses", "dev_loss", "score", *METRICS, "examples_seen", "lr"),
    "trials": (
        "state", "total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score",
        "best_metrics", "test_metrics",
    ),
    "tags": ("support", "predicted", "correct"),
    "predictions": ("forms", "gold", "predicted", "probability"),
}  # fmt: skip
_AGAIN = "it runs again at the next launch, once `repair` has taken its row out"


def check_rows(tables: dict[str, TableContents], found: Diagnosis) -> None:
    """Everything that can be told of rows."""
    for name in KEYS:
        _check_keys(name, tables, found)
    facts = gather(tables)
    _check_trials(tables, facts, found)
    for name in ("tags", "predictions"):
        _check_owners(name, tables[name], facts, found)


def _check_keys(name: str, tables: dict[str, TableContents], found: Diagnosis) -> None:
    table = tables[name]
    _check_nulls(name, table, found)
    doubles = repeated(table.rows, KEYS[name])
    rows = _rows(table, (n for at in doubles for n in at))
    different = [at for at in doubles if len({repr(rows[n]) for n in at}) > 1]
    same = len(doubles) - len(different)
    if same:
        found.notes.append(
            f"{name}: {same} rows stand in two parts, as a killed compaction leaves them; readers take one."
        )
    by_attempt: dict[Pair, list[list[int]]] = {}
    for at in different:
        by_attempt.setdefault(_pair(rows[at[0]]), []).append(at)
    for pair, groups in by_attempt.items():
        _tell_different(name, pair, [[rows[n] for n in at] for at in groups], tables, found)
        found.take_rows(name, (n for at in groups for n in at[:-1]), "another row has its key, and is the later one")


def _check_nulls(name: str, table: TableContents, found: Diagnosis) -> None:
    for key in KEYS[name]:
        if table.rows[key].null_count:
            numbers = [n for n, value in enumerate(table.rows[key].to_pylist()) if value is None]
            where = f"{name}/{table.part_of(numbers[0])}"
            found.find(where, f"{len(numbers)} rows have no {key}", "nobody can tell whose they are")
            found.take_rows(name, numbers, f"no {key}")


def _tell_different(
    name: str, pair: Pair, groups: list[list[Row]], tables: dict[str, TableContents], found: Diagnosis
) -> None:
    trial_id, attempt = pair
    computed = any(len({repr([row[c] for c in COMPUTED[name]]) for row in rows}) > 1 for rows in groups)
    what = "numbers" if computed else "times or whereabouts"
    means = "readers take the later one"
    if computed and (at := _completed_rows(tables["trials"], trial_id, attempt)):
        why = f"attempt {attempt} has two different rows in {name}"
        means = f"nobody can tell which is right; {_AGAIN}"
        found.trials[trial_id] = why
        found.take_rows("trials", at, why)
    found.find(
        f"trial {trial_id}", f"{len(groups)} rows of attempt {attempt} stand twice in {name}, with other {what}", means
    )


def _check_trials(tables: dict[str, TableContents], facts: Mapping[Pair, Facts], found: Diagnosis) -> None:
    trials = _trials(tables["trials"], facts, found)
    corpora = Corpora(trials)
    for trial in trials:
        lacks = list(missing(trial, corpora))
        if lacks:
            _take_trial(trial, "; ".join(lacks), _AGAIN, tables, found)
    for part in tables["predictions"].broken:
        _check_lost(part, trials, corpora, tables, found)
    without = sum(not trial.facts.sentences for trial in trials)
    if without:
        found.notes.append(
            f"predictions: {without} of {len(trials)} completed trials have none; no row says whether they should."
        )


def _trials(table: TableContents, facts: Mapping[Pair, Facts], found: Diagnosis) -> list[Completed]:
    """The completed trials whose specs can be understood; the others are told."""
    trials: dict[Pair, Completed] = {}
    for row in table.rows.to_pylist():
        wrong = spec_of(row["spec"], row["trial_id"])
        if isinstance(wrong, str):
            means = "what belongs to it cannot be told; another version may have written it, so `repair` leaves it"
            found.find(f"trial {row['trial_id']}", wrong, means)
        elif trial := completed(row, facts.get(_pair(row))):
            trials[_pair(row)] = trial
    return list(trials.values())


def _check_lost(
    part: BrokenPart, trials: list[Completed], corpora: Corpora, tables: dict[str, TableContents], found: Diagnosis
) -> None:
    """Completed trials that may have had predictions in a broken part and have no others."""
    known, held = {trial.row["trial_id"]: trial for trial in trials}, part.rows
    if held is not None and not all(i in known and n == _all_sentences(known[i], corpora) for i, n in held.items()):
        held = None  # a broken part's ids may be broken too
    for trial in trials if not part.newer else ():
        if lost_predictions(trial, held):
            sure = "were" if held else "may have been"
            _take_trial(trial, f"its predictions {sure} in predictions/{part.name}", _AGAIN, tables, found)


def _all_sentences(trial: Completed, corpora: Corpora) -> int:
    return sum(corpora.sentences(trial, split) for split in trial.splits)


def _take_trial(trial: Completed, wrong: str, means: str, tables: dict[str, TableContents], found: Diagnosis) -> None:
    trial_id, attempt = _pair(trial.row)
    found.find(f"trial {trial_id}", f"attempt {attempt} is completed, but {wrong}", means)
    found.trials[trial_id] = wrong
    found.take_rows("trials", _completed_rows(tables["trials"], trial_id, attempt), wrong)


def _check_owners(name: str, table: TableContents, facts: Mapping[Pair, Facts], found: Diagnosis) -> None:
    counts = table.rows.group_by(["trial_id", "attempt"]).aggregate([("split", "count")]).to_pylist()
    nobodys = {_pair(row): row["split_count"] for row in counts if not facts[_pair(row)].scores}
    for (trial_id, attempt), n in sorted(nobodys.items(), key=str):
        wrong = f"attempt {attempt} has {n} rows in {name} and no evaluation"
        found.find(f"trial {trial_id}", wrong, "another attempt of this number would be mixed with it")
    if nobodys:
        pairs = zip(table.rows["trial_id"].to_pylist(), table.rows["attempt"].to_pylist(), strict=True)
        found.take_rows(name, (n for n, pair in enumerate(pairs) if pair in nobodys), "their attempt has no evaluation")


def _completed_rows(trials: TableContents, trial_id: str, attempt: int) -> list[int]:
    rows = zip(*(trials.rows[column].to_pylist() for column in ("trial_id", "attempt", "state")), strict=True)
    return [n for n, row in enumerate(rows) if row == (trial_id, attempt, State.COMPLETED)]


def _rows(table: TableContents, numbers: Iterable[int]) -> dict[int, Row]:
    wanted = sorted(numbers)
    return dict(zip(wanted, table.rows.take(wanted).to_pylist() if wanted else [], strict=True))


def _pair(row: Mapping[str, Any]) -> Pair:
    return row["trial_id"], row["attempt"]
