"""Write a whole report (HTML, tables and pictures) into a folder, or a single figure or table of a page as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, Provenance, parse_query, provenance, select, versions_of
from dashboards.data.tables import FORMATS, as_csv, as_latex, format_table
from dashboards.report.html import as_html
from dashboards.report.paper import PaperFigure, paper_figures, paper_files
from dashboards.report.pictures import KINDS, WIDTH, FigureRenderer
from dashboards.report.sections import Section, Steps, sections
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import Drawn, Part, compute
from dashboards.views.registry import PARTS
from trials.errors import ConfigError, MissingError, NothingMatchedError


def export_figure(frames: Frames, name: str, url: str, path: Path) -> tuple[str, ...]:
    """Write a figure or its table as the page at `url` shows it; the format follows the extension of `path`.

    Returns:
        A notice for each part of the address that could not be followed.

    Raises:
        ConfigError: no such part or format, or the file cannot be written.
        NothingMatchedError: there is nothing to show.
        MissingError: a picture needs a Chromium, and there is none.
    """
    figure = drawn_part(frames, name, url)
    content = _content(figure.part, figure.drawn, path, figure.source)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from error
    return figure.notices


class DrawnPart(NamedTuple):
    """A part as a page shows it.

    Attributes:
        source: What it was made from, on one line.
        notices: One notice for each part of the address that could not be followed.
    """

    part: Part[Any]
    drawn: Drawn
    source: Provenance
    notices: tuple[str, ...]


def drawn_part(frames: Frames, name: str, url: str) -> DrawnPart:
    """Draw a part as the page at `url` shows it. Raises ConfigError and NothingMatchedError as `export_figure` does."""
    part = PARTS.get(name)
    if part is None:
        raise ConfigError(f"{name}: no such figure. Known: {', '.join(PARTS)}.")
    query, notices = parse_query(urlsplit(url).query if "?" in url else url)
    selection = select(frames.refresh(), query)
    drawn = compute(part, selection, LIGHT)  # files are always in the light theme
    if drawn.why_empty:
        raise NothingMatchedError(f"{name}: {drawn.why_empty}")
    return DrawnPart(part, drawn, provenance(part.shows(selection)), (*notices, *selection.notices))


def table_file(part: Part[Any], drawn: Drawn, source: Provenance, kind: str) -> str:
    """The table of a part in one of `tables.FORMATS`."""
    caption = f"{part.title}: {source.corpora}."
    return format_table(drawn.table, kind, caption=caption, label=f"tab:{part.name}", source=source.line)


def _content(part: Part[object], drawn: Drawn, path: Path, source: Provenance) -> bytes:
    kind = path.suffix.removeprefix(".").lower()
    if kind in FORMATS:
        return table_file(part, drawn, source, kind).encode()
    if kind not in (*KINDS, "json"):
        raise ConfigError(f"{path}: the extension must be one of {', '.join((*FORMATS, *KINDS, 'json'))}.")
    if drawn.figure is None:
        raise ConfigError(f"{path}: {part.name} is a table; its extensions are {', '.join(FORMATS)}.")
    if kind == "json":
        return (json.dumps(drawn.figure, allow_nan=False) + "\n").encode()
    with FigureRenderer() as renderer:
        return renderer.picture(drawn.figure, kind, part.name, source.line)


_MOST_ROWS = 30  # a LaTeX table may have several blocks but cannot break between pages


class Written(NamedTuple):
    """The files of a report.

    Attributes:
        files: All files, `html` first.
        no_pictures: Why there are no pictures; empty if there are.
    """

    html: Path
    files: tuple[Path, ...]
    no_pictures: str


def write_report(
    frames: Frames,
    query: PageQuery,
    folder: Path,
    *,
    pictures: bool = True,
    progress: Steps = lambda name, done, total: None,
) -> Written:
    """Write the report of a sweep and replace files of the same names. `progress` receives a step, its number, a total.

    Without Chromium everything except the SVG, PDF and PNG files is written.

    Raises:
        NothingMatchedError: the store has no such sweep.
        ConfigError: the folder cannot be written.
    """
    snapshot = frames.refresh()
    all_sections = sections(snapshot, query, versions_of(frames.store), progress)
    files = {"report.html": as_html(query.sweep, all_sections).encode()}
    for section in all_sections:
        files |= dict(_tables(section))
        files |= dict(paper_files(section.selection, section.key, section.title, section.provenance.line))
    return write_files(folder, files, _pictures(all_sections, progress) if pictures else ())


def write_files(folder: Path, files: Mapping[str, bytes], pictures: Iterable[tuple[str, bytes]]) -> Written:
    """Write `files` (content by path below `folder`, the HTML first), and the pictures if Chromium is installed.
    Raises ConfigError: the folder cannot be written.
    """
    no_pictures = ""
    try:
        files = {**files, **dict(pictures)}
    except MissingError as error:
        no_pictures = str(error)
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}).") from error
    written = tuple(folder / name for name in files)
    return Written(written[0], written, no_pictures)


def _tables(section: Section) -> Iterator[tuple[str, bytes]]:
    source = section.provenance.line
    for part, drawn in section.parts:
        name = f"tables/{section.key}-{part.name}"
        caption = " ".join(filter(None, [f"{part.title}. {section.title}.", drawn.note]))
        yield f"{name}.csv", as_csv(drawn.table, " · ".join(filter(None, [source, drawn.note]))).encode()
        label = f"tab:{section.key}-{part.name}"
        latex = as_latex(drawn.table, caption=caption, label=label, source=source, most=_MOST_ROWS)
        yield f"{name}.tex", latex.encode()


def _pictures(all_sections: Sequence[Section], progress: Steps) -> Iterator[tuple[str, bytes]]:
    drawn = [
        (PaperFigure(f"{section.key}-{part.name}", drawn.figure, WIDTH), section.provenance.line)
        for section in all_sections
        for part, drawn in section.parts
        if drawn.figure is not None
    ]
    drawn += [
        (figure, section.provenance.line)
        for section in all_sections
        for figure in paper_figures(section.selection, section.key)
    ]
    with FigureRenderer() as renderer:
        for n, ((name, figure, width), source) in enumerate(drawn, start=1):
            for kind in KINDS:
                yield f"figures/{name}.{kind}", renderer.picture(figure, kind, name, source, width)
            progress("pictures", n, len(drawn))
