"""Comparison of a published study with our trials: pure functions on the store's rows.

Numbers are compared only if metric, split and corpus agree; otherwise the comparison is refused with a reason and shows
no difference. Any other difference (model, optimiser, epochs, seeds, device) is listed beside the table. Times are
compared as shares of the own baseline's time, never as seconds.

Corpora are the same if the sizes of all splits that both sides know agree, and the release if ours has one. Users
choose names freely: a different name is shown, not refused, unless it is that of a known lookalike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd
from scipy import special

from orchestrator.analysis.cells import cell_specs
from orchestrator.analysis.describe import describe
from orchestrator.analysis.savings import savings
from orchestrator.analysis.trial_frame import trial_frame
from orchestrator.config.quantities import amount
from orchestrator.extras.published.replication import Replication, Runs, exact_replication, replication
from orchestrator.extras.published.study import (
    ALWAYS_SET,
    NOT_USED,
    UNKNOWN,
    Metric,
    Number,
    PublishedCorpus,
    PublishedFreeze,
    PublishedTable,
    Study,
)
from orchestrator.store.plans import stored_spec
from trials.record import TRAINING_COST, State
from trials.spec import DataSpec, FreezeSpec, TrialSpec

Row = Mapping[str, Any]

MARGIN = 0.01  # margin for scores: one point
TIME_MARGIN = 0.05  # margin for the share of time saved, on the same device
COUNT_MARGIN = 0.01  # margin for a count, as a share of the count
_STEP = 0.001  # shares are published to a tenth of a point
_SAVED = {"saved_params": "trainable_params", "saved_train": TRAINING_COST}  # published saving -> the cost saved
_COUNTS = ("total_params", "trainable_params")
_EXACT = (*_COUNTS, "trainable_share", "saved_params")  # the same under every seed, so without an interval


@dataclass(frozen=True)
class Line:
    """One published number and ours.

    Attributes:
        table, source: Key of the table, and where in the study it is.
        corpus: Its name and release.
        metric: Key of the study's metrics, with `@3` for the value after epoch 3.
        is_count: Whether it is a count of parameters, and no share of 1.
        freeze: What we froze.
        replication: Whether ours reproduces theirs, with the prediction interval for their number.
        notes: What else differs between the table and our set-up, a sentence each.
        errata: Those that concern a number of the table which is shown.
    """

    table: str
    source: str
    corpus: str
    train_size: int
    model: str
    n_layers: int
    metric: str
    is_count: bool
    freeze: FreezeSpec
    theirs: Runs
    ours: Runs
    replication: Replication
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The comparison of a study with a store.

    Attributes:
        trials: Our completed trials with a task of the study.
        margin: Largest difference of scores that counts as the same number.
        refused: By reason, the metrics and tables that are not compared; empty where it is one of our set-ups.
    """

    trials: int
    margin: float
    lines: list[Line] = field(default_factory=list)
    refused: dict[str, dict[str, None]] = field(default_factory=dict)

    def refuse(self, reason: str, *what: str) -> None:
        """Note why something is not compared."""
        self.refused.setdefault(reason, {}).update(dict.fromkeys(what))


@dataclass(frozen=True)
class Setup:
    """Completed trials that differ only in freeze and seed: those of each cell, the baseline's last.

    Attributes:
        rows: Their rows of `trials`, by trial id.
        epochs: Their rows of `epochs` by step, by trial id.
    """

    cells: Mapping[str, Sequence[TrialSpec]]
    rows: Mapping[str, Row]
    epochs: Mapping[str, Sequence[Row]]

    @property
    def specs(self) -> list[TrialSpec]:
        """The trials of all cells; the first is of a frozen one, if there is any."""
        return [spec for cell in self.cells.values() for spec in cell]

    @property
    def devices(self) -> list[str]:
        """The devices that the trials ran on, without repetitions."""
        return sorted({self.rows[spec.trial_id].get("device") or "an unknown device" for spec in self.specs})

    @cached_property
    def frame(self) -> pd.DataFrame:
        """`analysis.trial_frame` of all cells."""
        return trial_frame(self.specs, [self.rows[spec.trial_id] for spec in self.specs])


def compare_study(study: Study, trials: Sequence[Row], epochs: Sequence[Row], *, margin: float = MARGIN) -> Comparison:
    """Compare a study with the completed trials of a store, given as the rows of its tables.

    `margin` is the largest difference of scores that still counts as the same number, 0.01 is a point.
    """
    tasks = {corpus.task for corpus in study.corpora.values()}
    ours = [setup for setup in _setups(trials, epochs) if setup.specs[0].task in tasks]
    found = Comparison(len({spec.trial_id for setup in ours for spec in setup.specs}), margin)
    for setup in ours:
        if reason := _setup_mismatch(study, setup.specs[0]):
            found.refuse(reason)
    for key, table in study.tables.items():
        corpus = study.corpora.get(table.corpus or "")
        usable = []
        for number in table.numbers(key):
            if _is_by_definition(study, number):
                continue
            reasons = [*_study_gaps(study, corpus, number)]
            usable += [number] * (not reasons)
            for reason in reasons:
                found.refuse(reason, f"{number.metric} of {key}")
        same = [setup for setup in ours if _has_corpus(corpus, table.train_size, setup.specs[0])]
        for setup in same:
            found.lines.extend(_lines(study, table, usable, setup, found))
        if usable and not same and corpus:
            assert corpus.sizes != UNKNOWN
            size = table.train_size or corpus.sizes[0]
            name = f"{corpus.full_name} ({_counts(corpus.sizes)})"
            found.refuse(f"{name}: we have no trial with {size:,} train items", key)
    return found


def _setups(trials: Sequence[Row], epochs: Sequence[Row]) -> list[Setup]:
    """The completed trials by set-up; a baseline belongs to every set-up whose baseline it is."""
    rows = {row["trial_id"]: row for row in trials if row["state"] == State.COMPLETED}
    evaluations: dict[str, list[Row]] = {trial_id: [] for trial_id in rows}
    for row in sorted(epochs, key=lambda row: int(row["step"])):
        evaluations.setdefault(row["trial_id"], []).append(row)
    cells = cell_specs(stored_spec(row["spec"], trial_id) for trial_id, row in rows.items())
    by_setup: dict[tuple[str, bool | None], dict[str, Sequence[TrialSpec]]] = {}
    for cell_id, (spec, *_) in cells.items():
        if not spec.freeze.is_baseline:
            by_setup.setdefault((spec.baseline_id, spec.frozen_dropout), {})[cell_id] = cells[cell_id]
    for cell_id, (spec, *_) in cells.items():
        if spec.freeze.is_baseline:
            same = [members for (baseline_id, _), members in by_setup.items() if baseline_id == cell_id]
            for members in same or [by_setup.setdefault((cell_id, None), {})]:
                members[cell_id] = cells[cell_id]
    return [Setup(members, rows, evaluations) for members in by_setup.values()]


def _lines(
    study: Study, table: PublishedTable, usable: Sequence[Number], setup: Setup, found: Comparison
) -> list[Line]:
    """The numbers of a table beside those of our cells with the same freeze."""
    corpus, first = study.corpora.get(table.corpus or ""), setup.specs[0]
    lines: list[Line] = []
    comparable: list[Number] = []
    shown: list[Number] = []
    for number in usable:
        metric, freeze = study.metrics[number.metric], study.freezes[number.freeze]
        if reason := _mismatch(study, corpus, metric, first):
            found.refuse(reason, f"{number.metric} of {number.table}")
            continue
        comparable.append(number)
        # A study that does not state its number of runs is taken to have made one.
        n_runs = 1 if study.n_seeds == UNKNOWN else study.n_seeds
        theirs = Runs(n_runs, number.low, number.high, number.statistics.get("std"))
        for cell_id, specs in setup.cells.items():
            ours = (
                _measure(metric, number.at_epoch, setup, cell_id) if _is_same_freeze(freeze, study, specs[0]) else None
            )
            if ours is not None:
                shown.append(number)
                line = Line(
                    table=number.table,
                    source=table.source,
                    corpus=corpus.full_name if corpus else "any corpus",
                    train_size=first.train_size,
                    model=first.model.name,
                    n_layers=first.model.n_layers,
                    metric=number.metric + (f"@{number.at_epoch}" if number.at_epoch else ""),
                    is_count=metric.columns[0] in _COUNTS,
                    freeze=specs[0].freeze,
                    theirs=theirs,
                    ours=ours,
                    replication=_judge(study, metric.columns[0], theirs, ours, setup.devices, found.margin),
                )
                lines.append(line)
    notes = tuple(_notes(study, corpus, comparable, shown, setup))
    errata = tuple(erratum.text for erratum in study.errata if any(map(erratum.affects, shown)))
    return [replace(line, notes=notes, errata=errata) for line in lines]


def _notes(
    study: Study, corpus: PublishedCorpus | None, comparable: Sequence[Number], shown: Sequence[Number], setup: Setup
) -> Iterator[str]:
    """What else differs between a table and our set-up, what the study does not state, and what we lack."""
    differs, silent = _protocol_differences(study, setup)
    name = setup.specs[0].data.name
    if corpus and not _is_named(corpus, name):
        differs.insert(0, f"our corpus is called {name}")
    metrics = [study.metrics[number.metric] for number in shown]
    if any(metric.split == "test" and metric.epoch != "best" for metric in metrics):
        differs.append("our test score is from the best epoch on dev")
    elif any(metric.epoch == UNKNOWN for metric in metrics):
        differs.append("the study does not say which epoch it reports; ours is the last")
    freezes = {number.freeze for number in shown}
    absent = dict.fromkeys(study.freezes[number.freeze].label for number in comparable if number.freeze not in freezes)
    notes = {"protocol differs": differs, "not stated by the study": silent, "not in our trials": absent}
    yield from (f"{what}: {'; '.join(words)}" for what, words in notes.items() if words)


def _measure(metric: Metric, at_epoch: int | None, setup: Setup, cell_id: str) -> Runs | None:
    """The value of a published metric in a cell; None if our rows do not have it.

    A quality is taken at the published split and evaluation (or after `at_epoch` epochs); savings are paired by seed on
    the same device.
    """
    column, rows = metric.columns[0], [setup.rows[spec.trial_id] for spec in setup.cells[cell_id]]
    if column in _SAVED:
        return _saving(setup, _SAVED[column], cell_id)
    if column == "trainable_share":
        return _exact_count([row["trainable_params"] / row["total_params"] for row in rows if row["total_params"]])
    if column in _COUNTS:
        return _exact_count([float(row[column]) for row in rows if row[column] is not None])
    scores = [_score(row, setup.epochs[row["trial_id"]], metric, at_epoch) for row in rows]
    summary = describe([math.nan if score is None else score for score in scores])
    std = summary.std if summary.n > 1 else None
    return Runs(summary.n, summary.mean, summary.mean, std) if summary.n else None


def _exact_count(values: Sequence[float]) -> Runs | None:
    return Runs(1, values[0], values[0]) if values else None


def _saving(setup: Setup, cost: str, cell_id: str) -> Runs | None:
    """The share of its baseline's cost that a cell saves; its deviation is that of the logarithm of the share left."""
    table = savings(setup.frame, [cost]).set_index("cell")
    if cell_id not in table.index or math.isnan(saved := float(table.loc[cell_id, "saved"])):
        return None
    n, low, high = int(table.loc[cell_id, "n_pairs"]), *map(float, table.loc[cell_id, ["low", "high"]])
    std = None
    if n > 1 and not math.isnan(low):
        half = (math.log1p(-low) - math.log1p(-high)) / 2  # Student's interval of the log ratios
        std = half * math.sqrt(n) / -float(special.stdtrit(n - 1, 0.025))
    return Runs(n, saved, saved, std)


def _score(row: Row, epochs: Sequence[Row], metric: Metric, at_epoch: int | None) -> float | None:
    """The quality of one trial; at the last evaluation if the published one is unknown."""
    column = metric.columns[0]
    if metric.split == "test":
        found: float | None = dict(row.get("test_metrics") or ()).get(column)
        return found
    values = [
        float(epoch[column])
        for epoch in epochs
        if epoch.get(column) is not None and (at_epoch is None or math.isclose(epoch["epoch"], at_epoch, abs_tol=1e-6))
    ]
    return (max(values) if metric.epoch == "best" else values[-1]) if values else None


def _judge(study: Study, column: str, theirs: Runs, ours: Runs, devices: Sequence[str], margin: float) -> Replication:
    """Whether ours reproduces a published number.

    A share of time depends on the device and is judged on that of the study only.
    """
    if column in _EXACT:
        allowed = COUNT_MARGIN * max(abs(theirs.low), abs(theirs.high)) if column in _COUNTS else margin
        return exact_replication(ours, theirs, margin=allowed)
    if column not in _SAVED:
        return replication(ours, theirs, margin=margin, step=_STEP)
    if differs := _device_difference(study, devices):
        why = f"a share of time depends on the device: {differs}"
        return Replication("cannot tell", None, None, TIME_MARGIN, why)
    return replication(ours, theirs, margin=TIME_MARGIN, step=_STEP, is_saving=True)


def _setup_mismatch(study: Study, ours: TrialSpec) -> str | None:
    """Why no table of a study has our corpus and train size; None if one of them has."""
    refusals = [_corpus_mismatch(corpus, ours.data) for corpus in study.corpora.values() if corpus.task == ours.task]
    if None not in refusals:
        return "; ".join(dict.fromkeys(refusal for refusal in refusals if refusal))
    corpora = [(study.corpora[table.corpus], table.train_size) for table in study.tables.values() if table.corpus]
    if any(_has_corpus(corpus, train_size, ours) for corpus, train_size in corpora):
        return None
    return (
        f"our trials use {ours.train_size:,} train items of {ours.data.name}, a train size that the study does not have"
    )


def _is_by_definition(study: Study, number: Number) -> bool:
    """Whether a number is 0 because it is what the baseline saves of itself."""
    freeze = study.freezes[number.freeze]
    columns = study.metrics[number.metric].columns
    return freeze.layers == () and freeze.embeddings is False and columns[:1] in [(column,) for column in _SAVED]


def _study_gaps(study: Study, corpus: PublishedCorpus | None, number: Number) -> Iterator[str]:
    """Why a number cannot be compared with any trial of ours."""
    metric, freeze = study.metrics[number.metric], study.freezes[number.freeze]
    if corpus is not None and corpus.sizes == UNKNOWN:
        yield f"the study does not say which corpus it used ({corpus.name})"
    if not metric.columns:
        yield f"our store has no such metric: {metric.called}"
        return
    if metric.columns == ("train_s",):
        yield "times of different hardware are not compared; see saved_train, the share of the baseline's time"
        return
    if len(metric.columns) > 1:
        yield f"metric unknown: {metric.called}; could be {' or '.join(metric.columns)}"
    if metric.split == UNKNOWN:
        yield "the study does not say on which split it scored"
    if parts := [part for part in ("layers", "embeddings") if getattr(freeze, part) == UNKNOWN]:
        yield f"the study does not say which {' and '.join(parts)} were frozen ({freeze.label})"


def _mismatch(study: Study, corpus: PublishedCorpus | None, metric: Metric, ours: TrialSpec) -> str | None:
    """Why a metric cannot be compared with these trials, although it can be with others."""
    if corpus and (reason := _corpus_mismatch(corpus, ours.data, metric.split)):
        return reason
    if metric.columns[0] in _EXACT and _checkpoint(study.model) != _checkpoint(ours.model.name):
        return f"parameters are those of another model ({ours.model.name}, theirs {study.model})"
    return None


def _has_corpus(corpus: PublishedCorpus | None, train_size: int | None, ours: TrialSpec) -> bool:
    """Whether trials have a table's task, corpus and train size; a table that names no corpus fits all trials."""
    if corpus is None:
        return True
    if corpus.task != ours.task or _corpus_mismatch(corpus, ours.data) is not None:
        return False
    assert ours.data.sizes is not None
    return ours.train_size == (train_size or ours.data.sizes[0])


def _corpus_mismatch(theirs: PublishedCorpus, ours: DataSpec, scored: str = "dev") -> str | None:
    """Why numbers of the `scored` split must not be compared; None if they may."""
    if theirs.sizes == UNKNOWN:
        return f"the study does not say which corpus it used ({theirs.name})"
    if ours.sizes is None:
        return f"our trials do not record the size of {ours.name}, so it cannot be matched with {theirs.full_name}"
    if any(a is not None and b and a != b for a, b in zip(theirs.sizes, ours.sizes, strict=True)):
        return f"ours, {ours.name} ({_counts(ours.sizes)}), is not {theirs.full_name} ({_counts(theirs.sizes)})"
    match = re.fullmatch(r"ud:.*@r?(\d+\.\d+)", ours.source or "")  # a treebank that was fetched at a release
    if match and UNKNOWN != theirs.version != match[1]:
        return f"ours is release {match[1]} of {ours.name}, theirs {theirs.version}"
    known_by = f"{ours.name} {ours.source or ''} {' '.join(ours.train)}".lower()
    for name, splits in theirs.lookalikes.items():
        if scored in splits and name in known_by:
            return f"ours, {ours.name}, differs from {theirs.name} in the {scored} split"
    return None


def _is_same_freeze(theirs: PublishedFreeze, study: Study, ours: TrialSpec) -> bool:
    """Whether a trial freezes what a study froze.

    Layers of models of different depth are never the same, except none and all of them.
    """
    freeze = ours.freeze
    assert theirs.layers != UNKNOWN
    if theirs.embeddings != freeze.embeddings:
        return False
    if len(theirs.layers) in (0, study.n_layers):
        return freeze.depth == (ours.model.n_layers if theirs.layers else 0)
    return study.n_layers == ours.model.n_layers and theirs.layers == freeze.layers


def _protocol_differences(study: Study, setup: Setup) -> tuple[list[str], list[str]]:
    """(differences, settings that the study does not state) for trials that differ in freeze and seed only."""
    first = setup.specs[0]
    differs, silent = [], []
    if _checkpoint(study.model) != _checkpoint(first.model.name):
        differs.append(f"model {first.model.name} instead of {study.model}")
    for name in (*ALWAYS_SET, *NOT_USED):
        theirs, ours = study.setting(name), getattr(first if hasattr(first, name) else first.optim, name)
        if name == "frozen_dropout" and first.freeze.is_baseline:
            continue
        if theirs == UNKNOWN:
            silent.append(name)
        elif theirs != ours:
            differs.append(f"{name} {_word(ours)} instead of {_word(theirs)}")
    n_seeds = len({spec.seeds for spec in setup.specs})
    if study.n_seeds == UNKNOWN:
        silent.append("seeds")
    elif study.n_seeds != n_seeds:
        differs.append(f"{amount(n_seeds, 'seed')} instead of {study.n_seeds}")
    if study.hardware == UNKNOWN:
        silent.append("hardware")
    elif device := _device_difference(study, setup.devices):
        differs.append(device)
    return differs, silent


def _device_difference(study: Study, devices: Sequence[str]) -> str:
    """Where trials ran, if that is not shown to be where the study did; else empty.

    `Tesla T4`, as a driver calls it, is the `1x NVIDIA T4` of a study: the last word decides.
    """
    ran_on = " and ".join(devices)
    if study.hardware == UNKNOWN:
        return f"{ran_on}, theirs is not stated"
    is_same = len(devices) == 1 and ran_on.lower().split()[-1] in study.hardware.lower().split()
    return "" if is_same else f"{ran_on} instead of {study.hardware}"


def _is_named(corpus: PublishedCorpus, name: str) -> bool:
    """Whether our name is plainly the corpus's: `sst2` of `GLUE SST-2`, `UD_English-EWT`."""
    ours, theirs = ("".join(c for c in text.lower() if c.isalnum()) for text in (name, corpus.name))
    return ours in theirs


def _counts(sizes: Sequence[int | None]) -> str:
    """`12,544/2,001/2,077`; a dash for a split that is not used."""
    return "/".join(f"{size:,}" if size else "-" for size in sizes)


def _checkpoint(name: str) -> str:
    """The name of a checkpoint without its organisation and revision."""
    return name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
