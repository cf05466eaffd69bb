"""All files of a report in one folder: HTML, tables and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dashboards.data.frames import Frames
from dashboards.data.latex_tables import as_latex
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import versions_of
from dashboards.data.table_files import as_csv
from dashboards.report.html import as_html
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.report.sections import Section, sections
from trials.errors import ConfigError, MissingError
from trials.sources.cache import Progress

_MOST_ROWS = 30  # of a LaTeX table, which may have several blocks and cannot break between pages


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
    progress: Progress = lambda name, done, total: None,
) -> Written:
    """Write the report of a sweep; existing files with the same names are replaced. `progress` is told how far it is.

    Without a Chromium, everything but SVG, PDF and PNG is written.

    Raises:
        NothingMatchedError: the store has no such sweep.
        ConfigError: the folder cannot be written.
    """
    snapshot = frames.refresh()
    all_sections = sections(snapshot, query, versions_of(frames.store), progress)
    files = {"report.html": as_html(query.sweep, all_sections).encode()}
    for section in all_sections:
        files |= dict(_tables(section))
    return write_files(folder, files, _pictures(all_sections, progress) if pictures else ())


def write_files(folder: Path, files: Mapping[str, bytes], pictures: Iterable[tuple[str, bytes]]) -> Written:
    """Write files by their names within a folder, the HTML first, and the pictures if there is a Chromium. Raises
    ConfigError.
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


def _pictures(all_sections: Sequence[Section], progress: Progress) -> Iterator[tuple[str, bytes]]:
    drawn = [
        (f"{section.key}-{part.name}", drawn.figure, section.provenance.line)
        for section in all_sections
        for part, drawn in section.parts
        if drawn.figure is not None
    ]
    with FigureRenderer() as renderer:
        for n, (name, figure, source) in enumerate(drawn, start=1):
            yield from ((f"figures/{name}.{kind}", renderer.picture(figure, kind, name, source)) for kind in KINDS)
            progress("pictures", n, len(drawn))
