"""What a call shows in a notebook: one output of its cell, updated in place."""

from __future__ import annotations

import contextvars
import io
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from rich.console import Console

from orchestrator.config.console import SafeConsole, stderr

CONSOLE = stderr  # where calls from Python say what they do; in a notebook, the output of their cell
WIDTH = 110  # characters; a cell scrolls sideways beyond its own width
REDRAW_S = 0.5  # a kernel sends each drawing to the browser
_PRE = '<pre style="margin:0;white-space:pre;overflow-x:auto;line-height:1.35">{}</pre>'

Draw = Callable[[Console], None]
"""Prints something on a console."""


class Printed(NamedTuple):
    """What was printed, as HTML in which no text acts as markup, and as plain text."""

    html: str = ""
    text: str = ""

    @property
    def bundle(self) -> dict[str, str]:
        """The output by MIME type, as a notebook takes it."""
        return {"text/html": _PRE.format(self.html), "text/plain": self.text}


def printed_output(draw: Draw) -> Printed:
    """What is printed on a console as wide as a cell."""
    console = SafeConsole(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, force_jupyter=False, color_system="truecolor"
    )
    draw(console)
    text = console.export_text(clear=False)
    return Printed(console.export_html(inline_styles=True, code_format="{code}"), text)


class ShownInCell:
    """A result that shows itself where it ends a cell of a notebook, and as text where it is printed.

    A dataclass among its subclasses has `repr=False`, as IPython prefers the `__repr__` of a subclass.
    """

    def _draw(self, console: Console) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        return printed_output(self._draw).text.rstrip()

    def _repr_html_(self) -> str:
        return printed_output(self._draw).bundle["text/html"]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class NotebookOutput:
    """Everything that was said, and below it what changes.

    Args:
        show: Shows a MIME bundle in place of the one before.
    """

    def __init__(self, show: Callable[[dict[str, str]], None]) -> None:
        self._show = show
        self._said, self._last = Printed(), Printed()
        self._draw: Draw | None = None
        self._lock = threading.RLock()  # a signal's handler may say something while this thread shows

    def say(self, draw: Draw) -> None:
        """Add something that stays."""
        new = printed_output(draw)
        with self._lock:
            self._said = Printed(self._said.html + new.html, self._said.text + new.text)
            self.redraw()

    def redraw(self) -> None:
        """Show what has changed since the last time."""
        with self._lock:
            below = printed_output(self._draw) if self._draw else Printed()
            now = Printed(self._said.html + below.html, self._said.text + below.text)
            if now != self._last:
                self._last = now
                self._show(now.bundle)

    @contextmanager
    def drawing(self, draw: Draw) -> Iterator[None]:
        """While the block runs, draw below what was said, again and again; its last state stays."""
        self._draw, done = draw, threading.Event()

        def redraw_often() -> None:
            while not done.wait(REDRAW_S):
                self.redraw()

        # In the context of this thread, by which a kernel knows the cell.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(redraw_often,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(2 * REDRAW_S)
            self.redraw()


@contextmanager
def notebook_output(resume: str | None = None) -> Iterator[None]:
    """In a notebook, show what a call says on stderr and its progress as one output; elsewhere change nothing.

    Args:
        resume: How to go on after an interrupt, for the message of its KeyboardInterrupt; None leaves that as it is.
    """
    show = None if stderr.output is not None else _cell()
    if show is not None:
        stderr.output = NotebookOutput(show)
    try:
        yield
    except KeyboardInterrupt as error:
        raise error if resume is None or error.args else KeyboardInterrupt(resume) from None
    finally:
        if show is not None:
            stderr.output = None


def _cell() -> Callable[[dict[str, str]], None] | None:
    """Shows a bundle in the cell that runs, from the second time on in place of the first; None outside a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    warnings.filterwarnings("ignore", message="IProgress not found")  # of bars that are not drawn
    display = import_module("IPython.display").display
    name, shown = f"permafrost-{uuid.uuid4().hex}", False

    def show(bundle: dict[str, str]) -> None:
        nonlocal shown
        display(bundle, raw=True, display_id=name, update=shown)
        shown = True

    return show
