"""Selections for the tests of views: of made-up stores, and of frames whose every number is known."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from plotly.io.json import to_json_plotly

from dashboards.data.frames import Frames
from dashboards.data.selection import Selection, parse_query, select
from dashboards.views.kit.drawing import DARK, LIGHT
from dashboards.views.kit.part import Drawn, Part, compute
from orchestrator.store import ResultStore
from tests.dashboards.stores import Invented, specs, write_store
from trials.spec import TrialSpec

Select = Callable[..., Selection]
LONG = "x" * 300
SCRIPT = "<script>alert(1)</script>%{x}"


def selected(store: ResultStore, search: str = "") -> Selection:
    """What a page of the store would show."""
    return select(Frames(store).refresh(), parse_query(search)[0])


def made(
    folder: Path, invented: Invented | None = None, *, search: str = "", trials: Sequence[TrialSpec] | None = None
) -> Selection:
    """A selection of a made-up store of two train sizes, five freezes and three seeds."""
    return selected(write_store(folder, specs() if trials is None else trials, invented), search)


def pages_of(folder: Path, invented: Invented | None = None, trials: Sequence[TrialSpec] | None = None) -> Select:
    """What an address selects of a made-up store, which is read once."""
    frames = Frames(write_store(folder, specs() if trials is None else trials, invented))
    return lambda search="": select(frames.refresh(), parse_query(search)[0])


def strictly(figure: Mapping[str, Any] | None) -> Any:
    """A figure as a browser gets it: by the standard JSON, which knows no NaN."""
    return json.loads(json.dumps(figure, allow_nan=False))


_RAW_HTML = ("dangerouslySetInnerHTML", "dangerously_allow_html", "srcDoc", "__html")


def html_of(component: object) -> str:
    """What of a component the browser takes for markup: figures, Markdown, and properties that are raw HTML."""
    return "".join(_html(json.loads(to_json_plotly(component))))


def _html(node: object) -> Iterator[str]:
    if isinstance(node, list):
        for child in node:
            yield from _html(child)
    elif isinstance(node, dict):
        if node.get("type") in ("Graph", "Markdown"):
            yield json.dumps(node, ensure_ascii=False)
        yield from (str(value) for key, value in node.items() if key in _RAW_HTML)
        for child in node.values():
            yield from _html(child)


def drawn(part: Part[Any], selection: Selection) -> Drawn:
    """A part in both themes, prepared once: both can be sent, and have as many traces."""
    prepared = functools.cache(lambda: part.prepare(selection))
    once = replace(part, prepare=lambda _: prepared())
    light, dark = (compute(once, selection, look) for look in (LIGHT, DARK))
    if part.draw:
        assert len(strictly(light.figure)["data"]) == len(strictly(dark.figure)["data"])
    return light


def renamed(selection: Selection, column: str, name: str) -> Selection:
    """The selection with another name in a column of its trials (of what is frozen: but for the baseline's)."""
    trials = selection.trials
    others = trials["cell"] != trials["baseline"]
    return replace(selection, trials=trials.assign(**{column: trials[column].where(~others, name)}))


def only(selection: Selection, rows: pd.Series) -> Selection:
    """The selection with some of its trials."""
    return replace(selection, trials=selection.trials[rows].reset_index(drop=True))


def without_baseline(selection: Selection) -> Selection:
    """The selection with no trial that freezes nothing."""
    return only(selection, selection.trials["cell"] != selection.trials["baseline"])
