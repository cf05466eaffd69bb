"""What views show besides their parts, and the words of the header."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import html

from dashboards.app.components import card
from dashboards.app.trials_grid import trials_grid
from dashboards.data.frames import Frames
from dashboards.data.selection import Selection
from dashboards.report.method import answers, method
from dashboards.views import choose, overview
from dashboards.views.part import why_empty
from dashboards.views.registry import View
from dashboards.views.theme import STATES


def extra(view: View, selection: Selection, frames: Frames) -> Any:
    """Beside the parts of a view."""
    if view.path == "/":
        return _progress(selection)
    if view.path == "/trials":
        return trials_grid(selection)
    if view.path == "/choose" and not why_empty(selection):
        return [_answer(answer) for answer in choose.prepare_answers(selection).answers]
    if view.path == "/report":
        return _report(selection)
    return None


def _progress(selection: Selection) -> Any:
    if selection.sweep is None:
        store = selection.snapshot.address
        words = f"{store} has no sweep yet. Run one with: permafrost launch --store {store}"
        return dmc.Alert(words, title="An empty store", color="blue", variant="outline")
    found = overview.prepare_progress(selection)
    counts = ", ".join(f"{n:,} {STATES[state][0]}" for state, n in found.counts.items())
    total = sum(found.counts.values())
    done = found.counts.get("completed", 0)
    left = "" if found.left_s is None else f"about {_duration(found.left_s)} to go"
    tolerance = f"the cheapest within {selection.query.tolerance:g} points of the baseline"
    cards = [
        card("Trials", f"{done:,} of {total:,} done", counts + (f"; {left}" if left else "")),
        card("Best", found.best or "none yet", f"{selection.value_name}, largest train size"),
        card("Baseline", found.baseline or "none yet", "nothing frozen"),
        card("Cheapest within tolerance", found.cheapest or "none yet", f"{tolerance}, by mean alone: see Choose"),
    ]
    return dmc.SimpleGrid(cards, cols={"base": 1, "sm": 2, "lg": 4}, spacing="sm")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def header_words(selection: Selection) -> tuple[dict[str, Any], Any]:
    """What the header says of the sweep, and the way to its Ray."""
    sweep, last = selection.sweep, selection.snapshot.last_row
    if sweep is None:
        return {"words": "empty store", "last_row": None}, None
    left = (selection.trials["state"].isin(["planned", "missing", "running"])).any()
    word = "running" if sweep.is_running else "stopped" if left else "finished"
    ray = dmc.Anchor("Ray", href=sweep.ray, size="xs", target="_blank") if sweep.ray else None
    return {"words": f"{sweep.name}: {word}", "last_row": last}, ray


def _answer(answer: choose.Answer) -> Any:
    """The one sentence that a reader came for, what to write in a sweep's file, and the second choice."""
    title = f"Train size {answer.train_size:,}: " + (f"freeze {answer.freeze}" if answer.decided else answer.verdict)
    more = [dmc.Text(f"Second choice: {answer.runner_up}.", size="sm")] if answer.runner_up else []
    snippet = [dmc.Code(answer.snippet, block=True)] if answer.snippet else []
    colour = "green" if answer.decided else "yellow"
    body = dmc.Stack([dmc.Text(answer.sentence), *more, *snippet], gap="xs")
    return dmc.Alert(body, title=title, color=colour, variant="outline", mb="sm")


def _report(selection: Selection) -> Any:
    """The answers in words, and the way to the files of a paper."""
    link = html.A("The report as one file", href="/report.html", download="", **{"data-export": "/report.html"})
    if why_empty(selection):
        return dmc.Text(why_empty(selection))
    words = dmc.List([dmc.ListItem(line) for line in answers(selection)])
    how = [dmc.Text(line, size="sm") for line in method(selection, {})]
    command = f"permafrost report {selection.query.sweep} --store {selection.snapshot.address}"
    files = dmc.Text(["LaTeX, CSV, SVG, PDF: ", dmc.Code(command)], size="sm")
    return dmc.Stack([html.Div(link, className="tools"), files, words, *how], gap="sm")
