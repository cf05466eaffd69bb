"""One figure or its table as a file, as a page shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dashboards.data.frames import Frames
from dashboards.data.page_query import parse_query
from dashboards.data.selection import Provenance, provenance, select
from dashboards.data.table_files import FORMATS, formatted
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.views.kit.part import Drawn, Part, compute
from dashboards.views.kit.theme import LIGHT
from dashboards.views.registry import PARTS
from trials.errors import ConfigError, NothingMatchedError


def export_figure(frames: Frames, name: str, url: str, path: Path) -> tuple[str, ...]:
    """Write a figure or its table, as the page of this address shows it; the format follows the extension of `path`.

    Returns:
        A notice for everything in the address that could not be followed.

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
        source: What it was made from, in a line.
        notices: One for everything in the address that could not be followed.
    """

    part: Part[Any]
    drawn: Drawn
    source: Provenance
    notices: tuple[str, ...]


def drawn_part(frames: Frames, name: str, url: str) -> DrawnPart:
    """Draw a part. Raises ConfigError and NothingMatchedError as `export_figure`."""
    part = PARTS.get(name)
    if part is None:
        raise ConfigError(f"{name}: no such figure. Known: {', '.join(PARTS)}.")
    query, notices = parse_query(urlsplit(url).query if "?" in url else url)
    selection = select(frames.refresh(), query)
    drawn = compute(part, selection, LIGHT)  # as every file is
    if drawn.why_empty:
        raise NothingMatchedError(f"{name}: {drawn.why_empty}")
    return DrawnPart(part, drawn, provenance(part.shows(selection)), (*notices, *selection.notices))


def table_file(part: Part[Any], drawn: Drawn, source: Provenance, kind: str) -> str:
    """The table of a part in one of `table_files.FORMATS`."""
    caption = f"{part.title}: {source.corpora}."
    return formatted(drawn.table, kind, caption=caption, label=f"tab:{part.name}", source=source.line)


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
