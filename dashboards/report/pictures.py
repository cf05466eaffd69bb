"""Figures as SVG, PDF and PNG, drawn by a local Chromium. The same figure gives the same SVG.

with FigureRenderer() as renderer:
    renderer.picture(figure, "svg", "depth-strip", source="sweep starter")
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import shutil
import signal
import struct
import tempfile
import threading
import zlib
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from xml.sax.saxutils import escape

from dashboards.views.kit.drawing import Figure
from orchestrator.deploy.ray_session import temporary_files_in
from trials.errors import MissingError, reason

T = TypeVar("T")

PLOTLY_JS = Path(__file__).parents[1] / "assets" / "plotly-cartesian-4.1.1.min.js"
KINDS = ("svg", "pdf", "png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONGEST_TMPDIR = 40  # bytes; Chromium adds some fifty for a socket, whose path has at most 107
START_S, FIGURE_S, END_S = 20.0, 60.0, 5.0  # time limits for a start, each figure, and an end
WIDTH = 900  # CSS pixels
KEYWORD = b"Source"  # keyword of a PNG's text chunk
_SVG_START = re.compile(rb"<svg\b[^>]*>")
_HEADER_END = 33  # bytes of a PNG's beginning: 8 of signature, then the chunk IHDR
_UID = re.compile(rb'id="defs-([0-9a-f]{6})"')


def find_browser() -> str | None:
    """Path of a Chromium: the one that PERMAFROST_CHROMIUM names, else the first on the path; None if there is none."""
    named = os.environ.get("PERMAFROST_CHROMIUM")
    return named or next((there for name in BROWSERS if (there := shutil.which(name))), None)


class FigureRenderer:
    """A Chromium that runs as long as the `with` block and draws figures.

    Raises:
        MissingError: There is none, it does not start within `START_S`, or it does not draw a figure within `FIGURE_S`.
    """

    def __init__(self) -> None:
        browser = find_browser()
        if browser is None:
            raise MissingError(
                "Pictures need a Chromium, and none is on the path. Install one (apt install chromium), or set "
                "PERMAFROST_CHROMIUM to its path."
            )
        self._browser = browser
        self._open = ExitStack()
        self._loop = asyncio.new_event_loop()  # not Kaleido's own server, which waits without a limit
        self._loop.set_exception_handler(lambda loop, context: None)  # errors are raised where they are waited for

    def __enter__(self) -> Self:
        from kaleido import Kaleido

        os.environ["BROWSER_PATH"] = self._browser  # Kaleido looks here first
        if len(os.fsencode(tempfile.gettempdir())) > LONGEST_TMPDIR:
            self._open.enter_context(temporary_files_in(Path("/tmp")))  # noqa: S108  # it makes a folder of its own
        self._thread = threading.Thread(target=self._loop.run_forever, name="pictures", daemon=True)
        self._thread.start()
        logging.getLogger("choreographer").setLevel(logging.CRITICAL)
        self._kaleido = Kaleido(n=1, timeout=FIGURE_S, plotlyjs=PLOTLY_JS, mathjax=False)
        try:
            self._within(START_S, self._kaleido.open(), "start")
        except BaseException:
            self._kill()  # it would not end by itself
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """End the Chromium with all its processes, whatever state it is in."""
        with suppress(MissingError):
            self._within(END_S, self._kaleido.close(), "end")
        self._kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._open.close()

    def _kill(self) -> None:
        if hasattr(self._kaleido, "subprocess"):  # it leads a session of its own, as choreographer starts it
            with suppress(ProcessLookupError):
                os.killpg(self._kaleido.subprocess.pid, signal.SIGKILL)
            self._kaleido.subprocess.wait()

    def _within(self, limit_s: float, work: Coroutine[Any, Any, T], action: str) -> T:
        """What Kaleido's work gives. Raises MissingError: it fails, or takes longer."""
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result(limit_s)
        except TimeoutError:
            waiting.cancel()
            why = f"within {limit_s:g} s"
        except Exception as error:  # errors of Kaleido and of choreographer have no base class in common
            why = f"({reason(Exception(*error.args[:1]))})"
        raise MissingError(
            f"The browser {self._browser} does not {action} {why}. Try `{self._browser} --headless --dump-dom "
            "about:blank`: a limit on memory (`ulimit -v`) stops it. PERMAFROST_CHROMIUM names another one."
        )

    def picture(self, figure: Figure, kind: str, name: str, source: str, width: int = WIDTH) -> bytes:
        """A figure as one of `KINDS`, with the source of its numbers; PNG has twice the resolution, for print.

        Args:
            width: In CSS pixels, 96 in an inch of the SVG and PDF.
        """
        height = figure["layout"].get("height", 380)
        options: dict[str, Any] = {"format": kind, "width": width, "height": height, "scale": 2 if kind == "png" else 1}
        # Without ids of ours Plotly makes random ones.
        named = [{**trace, "uid": f"trace{n}"} for n, trace in enumerate(figure["data"])]
        work = self._kaleido.calc_fig({**figure, "data": named}, opts=options)
        drawn: bytes = self._within(FIGURE_S, work, f"draw {name}")
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
        position = 0 if match is None else match.end()
        return picture[:position] + f"<metadata>{escape(source)}</metadata>".encode() + picture[position:]
    if kind == "png":
        body = b"iTXt" + KEYWORD + bytes(5) + source.encode()
        chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        return picture[:_HEADER_END] + chunk + picture[_HEADER_END:]
    return picture
