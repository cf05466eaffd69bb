"""Figures as SVG, PDF and PNG, drawn by a local Chromium. The same figure gives the same SVG.

with FigureRenderer() as renderer:
    renderer.picture(figure, "svg", "depth-strip", source="sweep starter")
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import tempfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

from dashboards.views.kit.drawing import Figure
from orchestrator.deploy.ray_session import temporary_files_in
from trials.errors import MissingError

PLOTLY_JS = Path(__file__).parents[1] / "assets" / "plotly-cartesian-4.1.1.min.js"
KINDS = ("svg", "pdf", "png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONGEST_TMPDIR = 40  # bytes; Chromium adds some fifty for a socket, whose path has at most 107
WIDTH = 900  # CSS pixels
KEYWORD = b"Source"  # of the text chunk of a PNG
_SVG_START = re.compile(rb"<svg\b[^>]*>")
_HEADER_END = 33  # of a PNG: 8 bytes of signature and the chunk IHDR
_UID = re.compile(rb'id="defs-([0-9a-f]{6})"')


def find_browser() -> str | None:
    """Path of a Chromium: the one that PERMAFROST_CHROMIUM names, else the first on the path; None if there is none."""
    named = os.environ.get("PERMAFROST_CHROMIUM")
    return named or next((there for name in BROWSERS if (there := shutil.which(name))), None)


class FigureRenderer:
    """A Chromium that runs as long as the `with` block and draws figures. Raises MissingError."""

    def __init__(self) -> None:
        browser = find_browser()
        if browser is None:
            raise MissingError(
                "Pictures need a Chromium, and none is on the path. Install one (apt install chromium), or set "
                "PERMAFROST_CHROMIUM to its path."
            )
        self._browser = browser
        self._open = ExitStack()

    def __enter__(self) -> Self:
        import kaleido

        os.environ["BROWSER_PATH"] = self._browser  # Kaleido looks here first
        if len(os.fsencode(tempfile.gettempdir())) > LONGEST_TMPDIR:
            self._open.enter_context(temporary_files_in(Path("/tmp")))  # noqa: S108  # it makes a folder of its own
        kaleido.start_sync_server(plotlyjs=PLOTLY_JS, mathjax=False, silence_warnings=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import kaleido

        kaleido.stop_sync_server(silence_warnings=True)
        self._open.close()

    def picture(self, figure: Figure, kind: str, name: str, source: str, width: int = WIDTH) -> bytes:
        """A figure as one of `KINDS`, with the source of its numbers; PNG has twice the resolution, for print.

        Args:
            width: In CSS pixels, 96 in an inch of the SVG and PDF.
        """
        import kaleido

        height = figure["layout"].get("height", 380)
        options: dict[str, Any] = {"format": kind, "width": width, "height": height, "scale": 2 if kind == "png" else 1}
        # Without ids of ours Plotly makes random ones.
        named = [{**trace, "uid": f"trace{n}"} for n, trace in enumerate(figure["data"])]
        drawn: bytes = kaleido.calc_fig_sync({**figure, "data": named}, opts=options)
        return with_source(_with_fixed_ids(drawn, name) if kind == "svg" else drawn, kind, source)


def _with_fixed_ids(svg: bytes, name: str) -> bytes:
    """The SVG with ids derived from the figure's name instead of Plotly's random ones."""
    match = _UID.search(svg)
    return svg if match is None else svg.replace(match[1], hashlib.sha256(name.encode()).hexdigest()[:6].encode())


def with_source(picture: bytes, kind: str, source: str) -> bytes:
    """The picture with `source` inside: as metadata of an SVG, as a text chunk of a PNG; a PDF stays as it is.

    See the PNG specification (third edition), 11.3.3.4, for chunks of international text.
    """
    if kind == "svg":
        match = _SVG_START.search(picture)
        at = 0 if match is None else match.end()
        return picture[:at] + f"<metadata>{escape(source)}</metadata>".encode() + picture[at:]
    if kind == "png":
        body = b"iTXt" + KEYWORD + bytes(5) + source.encode()
        chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        return picture[:_HEADER_END] + chunk + picture[_HEADER_END:]
    return picture
