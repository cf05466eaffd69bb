"""Comparison of a published study with our trials: pure functions on the store's rows.

Numbers are compared only if metric, split and corpus agree; otherwise the comparison is refused with a reason and shows
no difference. Any other difference (model, optimiser, epochs, seeds, device) is listed beside the table. Times are
compared as shares of the own baseline's time, never as seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.freeze_names import freeze_name
from orchestrator.config.quantities import counted, points
from orchestrator.extras.published.comparable import (
    UNKNOWN_LEVEL,
    by_definition,
    fits,
    forbidden,
    forbidden_here,
    group_of,
)
from orchestrator.extras.published.our_results import COUNTED, Row, SeedMean, Setup, completed, measure, setups
from orchestrator.extras.published.protocols import (
    corpus_name,
    corpus_refusal,
    counts,
    known_as,
    may_be,
    protocol_differences,
)
from orchestrator.extras.published.replication import Replication
from orchestrator.extras.published.study import UNKNOWN, Group, Published, PublishedNumber, Study
from orchestrator.extras.published.verdicts import MARGIN, verdict


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
        corpus: Its name and release.
        silent: Settings that the study does not state.
        errata: Texts of those that concern a number shown.
        absent: Published freezes that none of our trials has.
        extra: Our freezes that the table does not have.
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
    extra: tuple[str, ...]
    detail: bool


@dataclass
class Refusal:
    """A refused comparison.

    Attributes:
        reason: Why not.
        theirs: The published numbers: table, metric, freeze, value.
        ours: Ours, if the study does not say which of them it means.
    """

    reason: str
    theirs: list[tuple[str, str, str, PublishedNumber]] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a study with a store.

    Attributes:
        trials: Our completed trials with a task of the study.
        missing: Sentences about published tables for which we have no trial.
        margin: Largest difference of scores that counts as the same number.
        about_the_text: Errata that concern no number.
    """

    study: str
    citation: str
    trials: int
    sides: tuple[Side, ...]
    refusals: tuple[Refusal, ...]
    missing: tuple[str, ...]
    about_the_text: tuple[str, ...]
    margin: float


def compare_study(study: Study, trials: Sequence[Row], epochs: Sequence[Row], *, margin: float = MARGIN) -> Comparison:
    """Compare a study with the completed trials of a store, given as the rows of its tables.

    `margin` is the largest difference of scores that still counts as the same number, 0.01 is a point.
    """
    tasks = {corpus.task for corpus in study.corpora.values()}
    ours = [setup for setup in setups(completed(trials, epochs)) if setup.spec.task in tasks]
    refusals: dict[str, Refusal] = {}
    for result in study.results_flat():
        for reason in forbidden(study, result):
            _refuse(refusals, reason, study, result, ours)
    _refuse_corpora(refusals, study, ours)
    sides: list[Side] = []
    missing: dict[str, list[str]] = {}
    for group in study.results:
        usable = [r for r in study.results_flat() if r.group == group.id and not any(forbidden(study, r))]
        fitting = [setup for setup in ours if fits(study, group, setup)]
        sides += [side for setup in fitting if (side := _side(study, group, usable, setup, refusals, margin))]
        if usable and not fitting:
            corpus, size = _wanted(study, group)
            missing.setdefault(corpus, []).extend([size] * (size not in missing.get(corpus, ())))
    return Comparison(
        study=study.study,
        citation=study.citation,
        trials=len({trial.spec.trial_id for setup in ours for trial in setup.trials}),
        sides=tuple(sides),
        refusals=tuple(refusals.values()),
        missing=tuple(
            f"{corpus}: we have no trial with {', '.join(sizes)} train sentences" for corpus, sizes in missing.items()
        ),
        about_the_text=tuple(erratum.text for erratum in study.errata if not erratum.concerns),
        margin=margin,
    )


def _refuse(refusals: dict[str, Refusal], reason: str, study: Study, result: Published, ours: list[Setup]) -> None:
    refusal = refusals.setdefault(reason, Refusal(reason))
    freeze, metric = study.freezes[result.freeze], study.metrics[result.metric]
    refusal.theirs.append((result.group, result.metric, freeze.label, result.figure))
    if len(metric.columns) > 1 and reason.startswith(UNKNOWN_LEVEL):
        for setup in ours:
            if fits(study, group_of(study, result.group), setup):
                refusal.ours += _candidates(study, result, setup)


def _candidates(study: Study, result: Published, setup: Setup) -> Iterator[str]:
    """The value of each metric that may be meant, in each of our cells that may be meant."""
    metric = study.metrics[result.metric]
    for cell in setup.cells.values():
        spec = cell[0].spec
        if not may_be(study.freezes[result.freeze], study.protocol.n_layers, spec):
            continue
        measured = [(c, measure(metric, result.at_epoch, setup, spec.cell_id, column=c)) for c in metric.columns]
        values = [f"{column} {points(value.mean)}" if value else f"no {column}" for column, value in measured]
        freeze, seeds = freeze_name(spec.freeze.label, spec.model.n_layers), counted(len(cell), "seed")
        place = f"{spec.data.name} dev, {freeze}, {spec.model.name}, {seeds}"
        yield f"{place}: {', '.join(values)}"


def _refuse_corpora(refusals: dict[str, Refusal], study: Study, ours: list[Setup]) -> None:
    """Report our corpora and train sizes that the study does not have."""
    for setup in ours:
        data, size = setup.spec.data, setup.spec.train_size
        of_task = [corpus for corpus in study.corpora.values() if corpus.task == setup.spec.task]
        reasons = [corpus_refusal(corpus, data) for corpus in of_task]
        if None not in reasons:
            text = _joined([reason for reason in dict.fromkeys(reasons) if reason])
            refusals.setdefault(text, Refusal(text))
        elif not any(group.corpus is not None and fits(study, group, setup) for group in study.results):
            reason = f"our trials use {size:,} train items of {data.name}, a train size that the study does not have"
            refusals.setdefault(reason, Refusal(reason))


def _joined(reasons: list[str]) -> str:
    """Several reasons as one, without repeating the subject."""
    start, is_not, _ = reasons[0].partition(" is not ")
    return "; ".join([reasons[0], *(reason.removeprefix(start + is_not[:4]) for reason in reasons[1:])])


def _side(
    study: Study,
    group: Group,
    usable: list[Published],
    setup: Setup,
    refusals: dict[str, Refusal],
    margin: float,
) -> Side | None:
    lines, shown, absent = [], [], []
    for result in sorted(usable, key=lambda result: _place(group, result)):
        if reason := forbidden_here(study, group, result, setup):
            _refuse(refusals, reason, study, result, [])
        elif not by_definition(study, result):
            new_lines = list(_lines(study, result, setup, margin))
            lines += new_lines
            shown += [result] * bool(new_lines)
            absent += [study.freezes[result.freeze].label] * (not new_lines)
    if not lines:
        return None
    trials = [setup.spec, *(trial.spec for trial in setup.trials)]
    differs, silent = protocol_differences(study.protocol, trials, setup.devices)
    corpus = study.corpora[group.corpus] if group.corpus else None
    if corpus and not known_as(corpus, setup.spec.data.name):
        differs.insert(0, f"our corpus is called {setup.spec.data.name}")
    if any(study.metrics[r.metric].split == "test" and study.metrics[r.metric].epoch != "best" for r in shown):
        differs.append("our test score is from the best epoch on dev")
    elif any(study.metrics[r.metric].epoch == UNKNOWN for r in shown):
        differs.append("the study does not say which epoch it reports; ours is the last")
    differs += dict.fromkeys(text for result in shown for text in study.differences_of(result))
    return Side(
        group=group.id,
        source=group.source,
        corpus=corpus_name(corpus) if corpus else "any corpus",
        train_size=setup.spec.train_size,
        model=setup.spec.model.name,
        n_layers=setup.spec.model.n_layers,
        lines=tuple(lines),
        differs=tuple(differs),
        silent=tuple(silent),
        errata=tuple(dict.fromkeys(erratum.text for result in shown for erratum in study.errata_of(result))),
        absent=tuple(dict.fromkeys(absent)),
        extra=_extra(study, group, setup),
        detail=group.detail,
    )


def _lines(study: Study, result: Published, setup: Setup, margin: float) -> Iterator[Line]:
    metric = study.metrics[result.metric]
    for cell in setup.cells.values():
        spec = cell[0].spec
        if not may_be(study.freezes[result.freeze], study.protocol.n_layers, spec):
            continue
        if (ours := measure(metric, result.at_epoch, setup, spec.cell_id)) is not None:
            counted = metric.columns[0] in COUNTED
            judged = verdict(study, result, ours, setup.devices, margin)
            yield Line(result.metric, result.at_epoch, metric.unit, spec.freeze.label, result.figure, ours, counted,
                       _difference(ours.mean, result.figure), judged)  # fmt: skip


def _difference(ours: float, theirs: PublishedNumber) -> float:
    """Ours minus theirs; 0 within a range, else to its nearer end."""
    return max(ours - theirs.high, 0.0) + min(ours - theirs.low, 0.0)


def _place(group: Group, result: Published) -> tuple[int, int]:
    """By column, then row."""
    columns = [column.partition(".")[0] for column in group.columns]
    column = result.metric if result.at_epoch is None else f"{result.metric}@{result.at_epoch}"
    return columns.index(column), list(group.rows).index(result.freeze)


def _extra(study: Study, group: Group, setup: Setup) -> tuple[str, ...]:
    published = [study.freezes[name] for name in group.rows]
    specs = [cell[0].spec for cell in setup.cells.values()]
    return tuple(
        freeze_name(spec.freeze.label, spec.model.n_layers)
        for spec in specs
        if not any(may_be(freeze, study.protocol.n_layers, spec) for freeze in published)
    )


def _wanted(study: Study, group: Group) -> tuple[str, str]:
    """Corpus and train size of a table, as a sentence needs them."""
    if group.corpus is None:
        return "any corpus", "any number of"
    corpus = study.corpora[group.corpus]
    assert corpus.sizes != UNKNOWN
    return f"{corpus_name(corpus)} ({counts(corpus.sizes)})", f"{group.train_size or corpus.sizes[0]:,}"
