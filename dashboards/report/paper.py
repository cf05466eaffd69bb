"""A published study drawn again: its own tables and figures in its own arrangement, with ours beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dashboards.data.tables import as_csv, as_latex, as_markdown
from dashboards.report.html import as_table, document, drawing
from dashboards.report.paper_figures import figure
from dashboards.report.paper_tables import all_numbers, table
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.report.write import Written, write_files
from dashboards.views.kit.theme import Figure
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import MARGIN
from orchestrator.extras.published.comparison_tables import Beside, Number, beside, differences, numbers
from orchestrator.extras.published.our_results import completed, corpus_name, setups
from orchestrator.extras.published.study import Exhibit, Study
from orchestrator.store import ResultStore
from trials.escaping.untrusted_text import html, markdown

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
        figure: None for a table.
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
    ours = setups(completed(store.trials().to_pylist(), store.epochs().to_pylist()))
    drawn, shown = [], list[tuple[Beside, Number]]()
    for exhibit in study.exhibits:
        groups = [(one, list(numbers(study, exhibit, one, margin))) for one in beside(study, exhibit, ours)]
        found = [(one, number) for one, rows in groups for number in rows]
        shown += found
        picture = None if exhibit.is_table else figure(study, exhibit, groups)
        frame = table(study, exhibit, groups) if exhibit.is_table else all_numbers(study, found)
        notes = dict.fromkeys(note for one, _ in groups for note in _notes(study, one))
        judged = [n for _, n in found if n.replication and n.replication.verdict == "cannot tell"]
        notes |= dict.fromkeys(f"Cannot tell: {reason}." for number in judged for reason in number.notes)
        drawn.append(DrawnExhibit(exhibit, picture, frame, tuple(notes)))
    return drawn, all_numbers(study, shown)


def write_paper(
    study: Study, store: ResultStore, folder: Path, *, margin: float = MARGIN, pictures: bool = True
) -> Written:
    """Write a study with ours beside; existing files with the same names are replaced. Raises ConfigError.

    Without a Chromium, everything but SVG, PDF and PNG is written.
    """
    drawn, everything = draw(study, store, margin)
    source = f"{study.citation} Ours: {store.address}"
    method = METHOD.format(margin=counted(100 * margin, "point"))
    files = {
        "paper.html": document(f"{study.title}, with ours beside", _body(study, drawn, method, source)).encode(),
        "paper.md": "".join(_as_text(study, drawn, method, source)).encode(),
        "tables/numbers.csv": as_csv(everything, source).encode(),
    }
    for one in drawn:
        files |= dict(_tables(one, source))
    return write_files(folder, files, _pictures(drawn, source) if pictures else ())


def _notes(study: Study, one: Beside) -> Iterator[str]:
    """Which of our trials stand beside a table, and what differs in the protocol."""
    if one.setup is None:
        corpus = study.corpora.get(one.group.corpus or "")
        size = f", {one.group.train_size:,} train sentences" if one.group.train_size else ""
        yield f"Ours is empty: no completed trial on {corpus_name(corpus) if corpus else 'any corpus'}{size}."
        return
    spec = one.setup.spec
    n_seeds = counted(len({trial.spec.seeds for trial in one.trials}), "seed")
    yield f"Ours: {spec.model.name} on {spec.data.name}, {spec.train_size:,} train sentences, {n_seeds}."
    if one.others:
        yield f"{one.others} more of our set-ups fit; permafrost compare lists all of them."
    if differing := differences(study, one):
        yield f"Protocol differs: {'; '.join(differing)}."


def _body(study: Study, drawn: list[DrawnExhibit], method: str, source: str) -> Iterator[str]:
    yield f"<h1>{html(study.title)}</h1><p>{html(method)}</p>"
    for one in drawn:
        yield f'<figure id="{one.exhibit.id}"><h2>{html(one.exhibit.title)}</h2>'
        if one.figure is None:
            yield as_table(one.table)
        else:
            yield drawing(one.exhibit.id, one.exhibit.title, one.figure)
            yield f"<details><summary>Table</summary>{as_table(one.table)}</details>"
        yield from (f'<p class="method">{html(note)}</p>' for note in one.notes)
        yield "</figure>"
    yield "<h2>Errata of the study</h2><ul>"
    yield from (f"<li>{html(erratum.text)}</li>" for erratum in study.errata)
    yield f"</ul><footer>{html(source)}</footer>"


def _as_text(study: Study, drawn: list[DrawnExhibit], method: str, source: str) -> Iterator[str]:
    yield f"# {markdown(study.title)}\n\n{markdown(method)}\n"
    for one in drawn:
        yield f"\n## {markdown(one.exhibit.title)}\n\n"
        if one.figure is None:
            yield as_markdown(one.table)
        else:
            yield f"![{markdown(one.exhibit.title)}](figures/{one.exhibit.id}.svg)\n"
        yield from (f"\n{markdown(note)}\n" for note in one.notes)
    yield "\n## Errata of the study\n\n"
    yield from (f"- {markdown(erratum.text)}\n" for erratum in study.errata)
    yield f"\n{markdown(source)}\n"


def _tables(one: DrawnExhibit, source: str) -> Iterator[tuple[str, bytes]]:
    name, caption = f"tables/{one.exhibit.id}", " ".join([f"{one.exhibit.title}.", *one.notes])
    yield f"{name}.csv", as_csv(one.table, source).encode()
    if one.exhibit.is_table:
        yield f"{name}.md", as_markdown(one.table).encode()
        latex = as_latex(one.table, caption=caption, label=f"tab:{one.exhibit.id}", source=source)
        yield f"{name}.tex", latex.encode()


def _pictures(drawn: list[DrawnExhibit], source: str) -> Iterator[tuple[str, bytes]]:
    with FigureRenderer() as renderer:
        for one in drawn:
            if one.figure is not None:
                name = one.exhibit.id
                yield from (
                    (f"figures/{name}.{kind}", renderer.picture(one.figure, kind, name, source)) for kind in KINDS
                )
