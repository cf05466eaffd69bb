"""One figure or its table as a file, as a page shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dashboards.data.frames import Frames
from dashboards.data.page_query import parse_query
from dashboards.data.provenance import provenance
from dashboards.data.selection import select
from dashboards.data.tables import FORMATS, formatted
from dashboards.report.pictures import KINDS, FigureRenderer
from dashboards.views.part import Drawn, Part, compute
from dashboards.views.registry import PARTS
from dashboards.views.theme import DARK, LIGHT
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
    found = drawn_part(frames, name, url)
    content = _content(found.part, found.drawn, path, found.source)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from error
    return found.notices


class DrawnPart(NamedTuple):
    """A part as a page shows it.

    Attributes:
        source: What it was made from, in a line.
        notices: One for everything in the address that could not be followed.
    """

    part: Part[Any]
    drawn: Drawn
    source: str
    notices: tuple[str, ...]


def drawn_part(frames: Frames, name: str, url: str) -> DrawnPart:
    """Draw a part. Raises ConfigError and NothingMatchedError as `export_figure`."""
    part = PARTS.get(name)
    if part is None:
        raise ConfigError(f"{name}: no such figure. Known: {', '.join(PARTS)}.")
    query, notices = parse_query(urlsplit(url).query if "?" in url else url)
    selection = select(frames.refresh(), query)
    drawn = compute(part, selection, DARK if query.theme == "dark" else LIGHT)
    if drawn.why_empty:
        raise NothingMatchedError(f"{name}: {drawn.why_empty}")
    return DrawnPart(part, drawn, provenance(selection).line(), (*notices, *selection.notices))


def _content(part: Part[object], drawn: Drawn, path: Path, source: str) -> bytes:
    kind = path.suffix.removeprefix(".").lower()
    if kind in FORMATS:
        return formatted(drawn.table, kind, caption=part.title, label=f"tab:{part.name}", source=source).encode()
    if kind not in (*KINDS, "json"):
        raise ConfigError(f"{path}: the extension must be one of {', '.join((*FORMATS, *KINDS, 'json'))}.")
    if drawn.figure is None:
        raise ConfigError(f"{path}: {part.name} is a table; its extensions are {', '.join(FORMATS)}.")
    if kind == "json":
        return (json.dumps(drawn.figure, allow_nan=False) + "\n").encode()
    with FigureRenderer() as renderer:
        return renderer.picture(drawn.figure, kind, part.name, source)
