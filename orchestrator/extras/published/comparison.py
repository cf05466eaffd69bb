"""Comparison of a published study with our trials: pure functions on the store's rows.

Numbers are compared only if metric, split and corpus agree; otherwise the comparison is refused with a reason and shows
no difference. Any other difference (model, optimiser, epochs, seeds, device) is listed beside the table. Times are
compared as shares of the own baseline's time, never as seconds.

Corpora are the same if the sizes of all splits that both sides know agree, and the release if ours has one. Users
choose names freely: a different name is shown, not refused, unless it is that of a known lookalike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.config.quantities import counted
from orchestrator.extras.published.our_results import COUNTED, RELATIVE, Row, SeedMean, Setup, measure, setups
from orchestrator.extras.published.replication import Replication, Runs, exact_replication, replication
from orchestrator.extras.published.study import (
    UNKNOWN,
    Group,
    Metric,
    Protocol,
    Published,
    PublishedCorpus,
    PublishedFreeze,
    PublishedNumber,
    Study,
)
from trials.spec import DataSpec, TrialSpec

MARGIN = 0.01  # of scores: one point
TIME_MARGIN = 0.05  # of the share of time saved, on one device
COUNT_MARGIN = 0.01  # of a count, as a share of it
_STEP = 0.001  # shares are published to a tenth of a point
_SETTINGS = (  # of a protocol that a spec has too, or its optimiser
    "lr", "head_lr", "layer_decay", "weight_decay", "schedule", "warmup", "batch_size", "epochs", "max_grad_norm",
    "precision", "max_length", "lowercase", "eval_every", "dropout", "frozen_dropout", "batching", "thaw_every", "lora",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One published number and ours.

    Attributes:
        freeze: Our label of what is frozen.
        counted: Whether ours is determined by model and freeze alone, not by seeds.
        difference: Ours minus theirs in the metric's unit; to the nearer end where theirs is a range.
        replication: Whether ours reproduces theirs, with the prediction interval for their number.
    """

    metric: str
    at_epoch: int | None
    unit: str
    freeze: str
    theirs: PublishedNumber
    ours: SeedMean
    counted: bool
    difference: float
    replication: Replication


@dataclass(frozen=True)
class Side:
    """A published table and one of our set-ups.

    Attributes:
        group, source: The table, and where in the study it is.
        corpus: Its name and release.
        silent: Settings that the study does not state.
        errata: Texts of those that concern a number shown.
        absent: Published freezes that none of our trials has.
        detail: Whether it repeats other tables.
    """

    group: str
    source: str
    corpus: str
    train_size: int
    model: str
    n_layers: int
    lines: tuple[Line, ...]
    differs: tuple[str, ...]
    silent: tuple[str, ...]
    errata: tuple[str, ...]
    absent: tuple[str, ...]
    detail: bool


@dataclass(frozen=True)
class Comparison:
    """The comparison of a study with a store.

    Attributes:
        trials: Our completed trials with a task of the study.
        refused: By reason, the metrics and tables that are not compared; empty where it is one of our set-ups.
        margin: Largest difference of scores that counts as the same number.
    """

    study: str
    trials: int
    sides: tuple[Side, ...]
    refused: dict[str, tuple[str, ...]]
    margin: float


def compare_study(study: Study, trials: Sequence[Row], epochs: Sequence[Row], *, margin: float = MARGIN) -> Comparison:
    """Compare a study with the completed trials of a store, given as the rows of its tables.

    `margin` is the largest difference of scores that still counts as the same number, 0.01 is a point.
    """
    tasks = {corpus.task for corpus in study.corpora.values()}
    ours = [setup for setup in setups(trials, epochs) if setup.spec.task in tasks]
    refused: dict[str, dict[str, None]] = {}
    sides: list[Side] = []
    for setup in ours:
        if reason := _no_table(study, setup):
            refused.setdefault(reason, {})
    for group in study.results:
        usable = []
        for result in study.results_flat(group):
            reasons = [*_forbidden(study, group, result)]
            usable += [result] * (not reasons)
            for reason in reasons:
                refused.setdefault(reason, {})[f"{result.metric} of {group.id}"] = None
        fitting = [setup for setup in ours if _fits(study, group, setup)]
        sides += [side for setup in fitting if (side := _side(study, group, usable, setup, refused, margin))]
        if usable and not fitting and group.corpus is not None:
            corpus = study.corpora[group.corpus]
            assert corpus.sizes != UNKNOWN
            size = group.train_size or corpus.sizes[0]
            name = f"{_full_name(corpus)} ({_counts(corpus.sizes)})"
            refused.setdefault(f"{name}: we have no trial with {size:,} train items", {})[group.id] = None
    n_trials = len({trial.spec.trial_id for setup in ours for trial in setup.trials})
    return Comparison(
        study.study, n_trials, tuple(sides), {reason: tuple(what) for reason, what in refused.items()}, margin
    )


def _side(
    study: Study,
    group: Group,
    usable: Sequence[Published],
    setup: Setup,
    refused: dict[str, dict[str, None]],
    margin: float,
) -> Side | None:
    lines: list[Line] = []
    shown, absent = [], []
    measured: dict[tuple[Metric, int | None], dict[str, SeedMean | None]] = {}
    for result in sorted(usable, key=lambda result: _place(group, result)):
        if reason := _forbidden_here(study, group, result, setup):
            refused.setdefault(reason, {})[f"{result.metric} of {group.id}"] = None
        elif not _by_definition(study, result):
            metric = study.metrics[result.metric]
            if (metric, result.at_epoch) not in measured:
                measured[metric, result.at_epoch] = measure(metric, result.at_epoch, setup)
            new_lines = list(_lines(study, result, setup, measured[metric, result.at_epoch], margin))
            lines += new_lines
            shown += [result] * bool(new_lines)
            absent += [study.freezes[result.freeze].label] * (not new_lines)
    if not lines:
        return None
    having = {study.freezes[result.freeze].label for result in shown}
    corpus = study.corpora[group.corpus] if group.corpus else None
    metrics = [study.metrics[result.metric] for result in shown]
    trials = [setup.spec, *(trial.spec for trial in setup.trials)]
    differs, silent = _protocol_differences(study.protocol, trials, _devices(setup))
    if corpus and not _known_as(corpus, setup.spec.data.name):
        differs.insert(0, f"our corpus is called {setup.spec.data.name}")
    if any(metric.split == "test" and metric.epoch != "best" for metric in metrics):
        differs.append("our test score is from the best epoch on dev")
    elif any(metric.epoch == UNKNOWN for metric in metrics):
        differs.append("the study does not say which epoch it reports; ours is the last")
    differs += dict.fromkeys(note.text for result in shown for note in study.differences if note.is_about(result))
    return Side(
        group=group.id,
        source=group.source,
        corpus=_full_name(corpus) if corpus else "any corpus",
        train_size=setup.spec.train_size,
        model=setup.spec.model.name,
        n_layers=setup.spec.model.n_layers,
        lines=tuple(lines),
        differs=tuple(differs),
        silent=tuple(silent),
        errata=tuple(dict.fromkeys(e.text for result in shown for e in study.errata if e.is_about(result))),
        absent=tuple(dict.fromkeys(label for label in absent if label not in having)),
        detail=group.detail,
    )


def _lines(
    study: Study, result: Published, setup: Setup, measured: Mapping[str, SeedMean | None], margin: float
) -> Iterator[Line]:
    """A published number beside each of our cells with that freeze."""
    metric, theirs = study.metrics[result.metric], result.figure
    devices = _devices(setup)
    for cell_id, cell in setup.cells.items():
        spec, ours = cell[0].spec, measured.get(cell_id)
        if ours is not None and _may_be(study.freezes[result.freeze], study.protocol.n_layers, spec):
            judged = _verdict(study.protocol, metric, theirs, ours, devices, margin)
            difference = max(ours.mean - theirs.high, 0.0) + min(ours.mean - theirs.low, 0.0)
            is_count = metric.columns[0] in COUNTED
            yield Line(result.metric, result.at_epoch, metric.unit, spec.freeze.label, theirs, ours, is_count,
                       difference, judged)  # fmt: skip


def _devices(setup: Setup) -> list[str]:
    return [trial.row.get("device") or "an unknown device" for trial in setup.trials]


def _verdict(
    protocol: Protocol, metric: Metric, theirs: PublishedNumber, ours: SeedMean, devices: Sequence[str], margin: float
) -> Replication:
    """Whether ours reproduces a published number.

    A study that does not state its number of runs is taken to have made one. A share of time depends on the device and
    is judged on that of the study only.
    """
    n = protocol.n_seeds
    their_runs = Runs(1 if n == UNKNOWN else n, theirs.low, theirs.high, theirs.std)
    if metric.columns[0] in COUNTED:
        allowed = margin if metric.unit == "share" else COUNT_MARGIN * max(abs(theirs.low), abs(theirs.high))
        return exact_replication(ours.mean, their_runs, margin=allowed)
    our_runs = Runs(ours.n, ours.mean, ours.mean, ours.std)
    if metric.columns[0] not in RELATIVE:
        return replication(our_runs, their_runs, margin=margin, step=_STEP)
    if differs := _other_device(protocol, devices):
        why = f"a share of time depends on the device: {differs}"
        return Replication("cannot tell", None, None, TIME_MARGIN, why)
    return replication(our_runs, their_runs, margin=TIME_MARGIN, step=_STEP, scale="log saved")


def _no_table(study: Study, setup: Setup) -> str | None:
    """Why none of a study's tables is of our corpus and train size; None if one is."""
    spec = setup.spec
    refusals = [_corpus_refusal(c, spec.data) for c in study.corpora.values() if c.task == spec.task]
    if None not in refusals:
        return "; ".join(dict.fromkeys(refusal for refusal in refusals if refusal))
    if any(group.corpus is not None and _fits(study, group, setup) for group in study.results):
        return None
    return (
        f"our trials use {spec.train_size:,} train items of {spec.data.name}, a train size that the study does not have"
    )


def _forbidden(study: Study, group: Group, result: Published) -> Iterator[str]:
    """Why a number cannot be compared with any trial of ours."""
    metric, freeze = study.metrics[result.metric], study.freezes[result.freeze]
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
    if not freeze.is_exact:
        parts = ["layers"] * (freeze.layers == UNKNOWN) + ["embeddings"] * (freeze.embeddings == UNKNOWN)
        yield f"the study does not say which {' and '.join(parts)} were frozen ({freeze.label})"
    corpus = study.corpora.get(group.corpus or "")
    if corpus is not None and corpus.sizes == UNKNOWN:
        yield f"the study does not say which corpus it used ({corpus.name})"


def _forbidden_here(study: Study, group: Group, result: Published, setup: Setup) -> str | None:
    """Why a number cannot be compared with this set-up, although with others."""
    metric, spec = study.metrics[result.metric], setup.spec
    corpus = study.corpora.get(group.corpus or "")
    if metric.split != UNKNOWN and corpus and (reason := _corpus_refusal(corpus, spec.data, metric.split)):
        return reason
    if metric.columns[0] in COUNTED and _checkpoint(study.protocol.model) != _checkpoint(spec.model.name):
        return f"parameters are those of another model ({spec.model.name}, theirs {study.protocol.model})"
    return None


def _by_definition(study: Study, result: Published) -> bool:
    """Whether a number is 0 because it is the baseline's difference to itself."""
    metric = study.metrics[result.metric]
    return study.freezes[result.freeze].is_baseline and (metric.to_baseline or metric.columns[0] in RELATIVE)


def _fits(study: Study, group: Group, setup: Setup) -> bool:
    """Whether one of our set-ups has the task, corpus and train size of a table."""
    if group.corpus is None:
        return True
    corpus, spec = study.corpora[group.corpus], setup.spec
    if corpus.task != spec.task or _corpus_refusal(corpus, spec.data) is not None:
        return False
    assert spec.data.sizes is not None
    return spec.train_size == (group.train_size or spec.data.sizes[0])


def _corpus_refusal(theirs: PublishedCorpus, ours: DataSpec, scored: str = "dev") -> str | None:
    """Why numbers of the `scored` split must not be compared; None if they may."""
    if theirs.sizes == UNKNOWN:
        return f"the study does not say which corpus it used ({theirs.name})"
    if ours.sizes is None:
        return f"our trials do not record the size of {ours.name}, so it cannot be matched with {_full_name(theirs)}"
    if any(a is not None and b and a != b for a, b in zip(theirs.sizes, ours.sizes, strict=True)):
        return f"ours, {ours.name} ({_counts(ours.sizes)}), is not {_full_name(theirs)} ({_counts(theirs.sizes)})"
    match = re.fullmatch(r"ud:.*@r?(\d+\.\d+)", ours.source or "")  # a treebank that was fetched at a release
    if match and UNKNOWN != theirs.version != match[1]:
        return f"ours is release {match[1]} of {ours.name}, theirs {theirs.version}"
    known_by = f"{ours.name} {ours.source or ''} {' '.join(ours.train)}".lower()
    for name, splits in theirs.lookalikes.items():
        if scored in splits and name in known_by:
            return f"ours, {ours.name}, differs from {theirs.name} in the {scored} split"
    return None


def _may_be(theirs: PublishedFreeze, n_layers: int | str, ours: TrialSpec) -> bool:
    """Whether a trial freezes what a study froze.

    Layers of models of different depth are never the same, except none and all of them.
    """
    freeze = ours.freeze
    assert theirs.layers != UNKNOWN
    if theirs.embeddings != freeze.embeddings:
        return False
    if len(theirs.layers) in (0, n_layers):
        return freeze.depth == (ours.model.n_layers if theirs.layers else 0)
    return n_layers == ours.model.n_layers and theirs.layers == freeze.layers


def _place(group: Group, result: Published) -> tuple[int, int]:
    """By column, then row."""
    columns = [column.partition(".")[0] for column in group.columns]
    column = result.metric if result.at_epoch is None else f"{result.metric}@{result.at_epoch}"
    return columns.index(column), list(group.rows).index(result.freeze)


def _protocol_differences(
    protocol: Protocol, specs: Sequence[TrialSpec], devices: Sequence[str]
) -> tuple[list[str], list[str]]:
    """(differences, settings that the study does not state) for trials that differ in freeze and seed only."""
    first = specs[0]
    differing: list[str] = []
    if _checkpoint(protocol.model) != _checkpoint(first.model.name):
        differing.append(f"model {first.model.name} instead of {protocol.model}")
    silent = []
    for name in _SETTINGS:
        theirs, ours = getattr(protocol, name), getattr(first if hasattr(first, name) else first.optim, name)
        if name == "frozen_dropout" and all(spec.freeze.is_baseline for spec in specs):
            continue
        if theirs == UNKNOWN:
            silent.append(name)
        elif theirs != ours:
            differing.append(f"{name} {_word(ours)} instead of {_word(theirs)}")
    n_seeds = len({spec.seeds for spec in specs})
    if protocol.n_seeds == UNKNOWN:
        silent.append("seeds")
    elif protocol.n_seeds != n_seeds:
        differing.append(f"{counted(n_seeds, 'seed')} instead of {protocol.n_seeds}")
    if protocol.hardware == UNKNOWN:
        silent.append("hardware")
    elif differs := _other_device(protocol, devices):
        differing.append(differs)
    return differing, silent


def _other_device(protocol: Protocol, devices: Sequence[str]) -> str:
    """Where trials ran, if that is not shown to be where the study did; else empty.

    `Tesla T4`, as a driver calls it, is the `1x NVIDIA T4` of a study: the last word decides.
    """
    ran_on = " and ".join(sorted(set(devices))) or "an unknown device"
    if protocol.hardware == UNKNOWN:
        return f"{ran_on}, theirs is not stated"
    same = len(set(devices)) == 1 and ran_on.lower().split()[-1] in protocol.hardware.lower().split()
    return "" if same else f"{ran_on} instead of {protocol.hardware}"


def _full_name(corpus: PublishedCorpus) -> str:
    return corpus.name if corpus.version == UNKNOWN else f"{corpus.name} {corpus.version}"


def _known_as(corpus: PublishedCorpus, name: str) -> bool:
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
