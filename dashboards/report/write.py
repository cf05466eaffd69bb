"""All files of a report in one folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.data.tables import as_csv, as_latex
from dashboards.report.forecasts import forecasts
from dashboards.report.html import as_html
from dashboards.report.markdown import as_text
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.report.sections import Section, sections
from trials.errors import ConfigError, MissingError


class Written(NamedTuple):
    """The files of a report.

    Attributes:
        html: The file to open.
        files: All files, `html` first.
        no_pictures: Why there are no pictures; empty if there are.
    """

    html: Path
    files: tuple[Path, ...]
    no_pictures: str


def write_report(frames: Frames, query: PageQuery, folder: Path, *, pictures: bool = True) -> Written:
    """Write the report of a sweep; existing files with the same names are replaced.

    Without a Chromium, everything but SVG, PDF and PNG is written.

    Raises:
        NothingMatchedError: the store has no such sweep.
        ConfigError: the folder cannot be written.
    """
    found = sections(frames.refresh(), query, versions_of(frames))
    files, no_pictures = dict[str, bytes](), ""
    forecast = forecasts(frames.store, query.sweep)
    files["report.html"] = as_html(query.sweep, found, forecast).encode()
    files["report.md"] = as_text(query.sweep, found, forecast).encode()
    if forecast is not None:
        files["tables/forecast.csv"] = as_csv(forecast.table).encode()
    for section in found:
        files |= dict(_tables(section))
    if pictures:
        try:
            files |= dict(_pictures(found))
        except MissingError as error:
            no_pictures = str(error)
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}).") from error
    return Written(folder / "report.html", tuple(folder / name for name in files), no_pictures)


def versions_of(frames: Frames) -> dict[str, str]:
    """Versions of Python and packages of the trials that ended; several where they differ."""
    found: dict[str, set[str]] = {}
    for versions in set(map(tuple, filter(None, frames.store.trials()["versions"].to_pylist()))):
        for name, version in versions:
            found.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(several)) for name, several in found.items()}


def _tables(section: Section) -> Iterator[tuple[str, bytes]]:
    source = section.provenance.line()
    for part, drawn in section.parts:
        name = f"tables/{section.key}-{part.name}"
        caption = f"{part.title}. {section.title}."
        yield f"{name}.csv", as_csv(drawn.table).encode()
        yield (
            f"{name}.tex",
            (f"% {source}\n" + as_latex(drawn.table, caption=caption, label=f"tab:{part.name}")).encode(),
        )


def _pictures(found: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    with ExitStack() as stack:
        renderer = stack.enter_context(FigureRenderer())
        for section in found:
            for part, drawn in section.parts:
                if drawn.figure is not None:
                    name = f"{section.key}-{part.name}"
                    yield from ((f"figures/{name}.{kind}", renderer.picture(drawn.figure, kind, name)) for kind in KINDS)
