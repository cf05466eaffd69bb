"""A published study drawn again on a page and in files: its own tables and figures, with ours beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import html

from dashboards.data.selection import Selection
from dashboards.views.kit.components import copied, frame_table, graph
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.published import fitting_sizes
from dashboards.views.kit.theme import Figure, Look, repainted
from dashboards.views.paper_figures import figure
from dashboards.views.paper_tables import all_numbers, table
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import MARGIN
from orchestrator.extras.published.comparison_tables import Beside, Number, beside, differences, numbers
from orchestrator.extras.published.our_results import Setup, completed, corpus_name, setups
from orchestrator.extras.published.study import STUDIES, Exhibit, Study, load_study
from orchestrator.store import ResultStore

METHOD = (
    "Ours is the mean over seeds at the evaluation that the study reports; intervals are 95 % intervals over "
    "seeds. A number is reproduced if the 95 % prediction interval for it, under the variance over our seeds (and "
    "theirs where it is published), lies within {margin} of it (5 points for time saved); not reproduced if all "
    "of it lies further away; otherwise the runs cannot tell. Times are those of different devices and are not "
    "judged; the share of time saved is. Empty cells: no trial of ours."
)


@dataclass(frozen=True, eq=False)
class DrawnExhibit:
    """An exhibit with ours beside.

    Attributes:
        figure: In the colours of files, which are light; None for a table.
        table: The exhibit, or the numbers of a figure.
        notes: What of ours is shown and how its protocol differs; or that there is none.
    """

    exhibit: Exhibit
    figure: Figure | None
    table: pd.DataFrame
    notes: tuple[str, ...]


def draw(study: Study, store: ResultStore, margin: float = MARGIN) -> tuple[list[DrawnExhibit], pd.DataFrame]:
    """Every exhibit of a study with the completed trials of a store, and all numbers as one long table.

    Args:
        margin: Largest difference of scores that still counts as the same number, 0.01 is a point.
    """
    return _beside(study, setups(completed(store.trials().to_pylist(), store.epochs().to_pylist())), margin)


def _beside(study: Study, ours: Sequence[Setup], margin: float) -> tuple[list[DrawnExhibit], pd.DataFrame]:
    drawn, shown = [], list[tuple[Beside, Number]]()
    for exhibit in study.exhibits:
        groups = [(pairing, list(numbers(study, exhibit, pairing, margin))) for pairing in beside(study, exhibit, ours)]
        paired = [(pairing, number) for pairing, rows in groups for number in rows]
        shown += paired
        picture = None if exhibit.is_table else figure(study, exhibit, groups)
        frame = table(study, exhibit, groups) if exhibit.is_table else all_numbers(study, paired)
        notes = dict.fromkeys(note for pairing, _ in groups for note in _notes(study, pairing))
        judged = [n for _, n in paired if n.replication and n.replication.verdict == "cannot tell"]
        notes |= dict.fromkeys(f"Cannot tell: {reason}." for number in judged for reason in number.notes)
        drawn.append(DrawnExhibit(exhibit, picture, frame, tuple(notes)))
    return drawn, all_numbers(study, shown)


def _notes(study: Study, pairing: Beside) -> Iterator[str]:
    """Which of our trials stand beside a table, and what differs in the protocol."""
    if pairing.setup is None:
        corpus = study.corpora.get(pairing.group.corpus or "")
        size = f", {pairing.group.train_size:,} train sentences" if pairing.group.train_size else ""
        yield f"Ours is empty: no completed trial on {corpus_name(corpus) if corpus else 'any corpus'}{size}."
        return
    spec = pairing.setup.spec
    n_seeds = counted(len({trial.spec.seeds for trial in pairing.trials}), "seed")
    yield f"Ours: {spec.model.name} on {spec.data.name}, {spec.train_size:,} train sentences, {n_seeds}."
    if pairing.others:
        yield f"{pairing.others} more of our set-ups fit; permafrost compare lists all of them."
    if differing := differences(study, pairing):
        yield f"Protocol differs: {'; '.join(differing)}."


# On the page Scores, on demand: reading every row of a store takes a while.


class Paper(NamedTuple):
    """A study with the store's trials beside.

    Attributes:
        refusal: Why no trial of the store stands beside it; empty if one may.
    """

    study: Study
    exhibits: tuple[DrawnExhibit, ...]
    numbers: pd.DataFrame
    refusal: str


def prepare_paper(selection: Selection) -> Paper:
    """The study that the address names, else the first that fits a trial of the store."""
    specs = selection.snapshot.specs.values()
    kinds = {(spec.task, spec.data.fingerprint, spec.train_size): spec for spec in specs}.values()
    wanted = selection.query.study
    for study in map(load_study, [wanted] if wanted in STUDIES else [] if wanted else STUDIES):
        refusals = list(dict.fromkeys(fitting_sizes(study, [spec])[0] for spec in kinds))
        fits = "" in refusals
        if fits or wanted:
            drawn, frame = draw(study, selection.snapshot.store) if fits else _beside(study, (), MARGIN)
            return Paper(study, tuple(drawn), frame, "" if fits else "; ".join(refusals))
    raise EmptyPartError("No trial here fits a published study. Choose one with the control Published study.")


def paper_body(info: Paper, look: Look) -> Any:
    """The exhibits in the study's order, what stands beside, and the errata."""
    lines: list[Any] = [dmc.Text(info.study.citation, size="sm")]
    if info.refusal:
        text = f"Nothing of this store stands beside: {info.refusal}. The sweep that trains as the study did:"
        command = f"permafrost launch --sweep configs/sweeps/{info.study.study}.yaml"
        lines.append(html.Div([dmc.Text(text, size="sm"), copied(command, "the command")], className="elsewhere"))
    for drawn in info.exhibits:
        title = drawn.exhibit.title
        rows = frame_table(drawn.table.drop(columns="note", errors="ignore") if info.refusal else drawn.table)
        shown = [html.Div(rows, className="wide", tabIndex="0", role="group", **{"aria-label": title})]
        if drawn.figure is not None:
            folded = html.Details([html.Summary("Table"), *shown])
            shown = [graph(drawn.exhibit.id, title, repainted(drawn.figure, look), kind="still"), folded]
        notes = [] if info.refusal else [dmc.Text(note, size="sm") for note in drawn.notes]
        lines.append(html.Section([dmc.Title(title, order=3, size="h6"), *shown, *notes], className="exhibit"))
    errata = [html.Li(erratum.text) for erratum in info.study.errata]
    if errata:
        lines += [dmc.Title("Errata of the study", order=3, size="h6"), html.Ul(errata)]
    return html.Div(lines)


PAPER = Part(
    "published-paper",
    "A published study drawn again",
    "The study's own tables and figures, in its arrangement, with the trials of this store beside and a verdict each.",
    prepare_paper,
    lambda info: info.numbers,
    method=METHOD.format(margin="1 point"),
    body=paper_body,
    of_store=True,
    on_demand="Papers: a published study's own tables and figures, ours beside",
)
