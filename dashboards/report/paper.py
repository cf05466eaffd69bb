"""The files of a published study drawn again, with ours beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dashboards.data.tables import as_csv, as_latex, as_markdown
from dashboards.report.html import as_table, document, drawing
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.report.write import Written, write_files
from dashboards.views.papers import METHOD, DrawnExhibit, draw
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import MARGIN
from orchestrator.extras.published.study import Study
from orchestrator.store import ResultStore
from trials.escaping import html, markdown


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
