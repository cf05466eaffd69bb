"""The state of a page, which is all in its URL: `?sweep=starter&size=800&strategy=none,first_k`.

Settings that are not in the URL have their defaults. Settings that cannot be parsed give a notice and keep theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from orchestrator.analysis.trial_frame import SAVED

SPLITS = ("dev", "test")
EMBEDDINGS = ("any", "frozen", "learning")
COSTS = SAVED
AXES = {"epoch": "epochs", "train_s": "training time"}
THEMES = ("auto", "light", "dark")
STATES = ("any", "completed or pruned", "failed", "not ended")
_LONGEST, _LONG = 300, 3000
_LONG_ONES = ("filters", "columns", "trials")


@dataclass(frozen=True)
class PageQuery:
    """What a page shows. An empty string stands for the store's first choice: the newest sweep, its first corpus, ...

    Attributes:
        sweep, corpus, model, setup: Which trials; `corpus` includes the task, e.g. `pos UD_Naija-NSC`.
        size, strategy: Train sizes and strategies shown; empty means all.
        embeddings: Trials with frozen embeddings, with trained ones (`learning`), or any.
        metric: Name of a metric; empty means the one that selects the best epoch.
        cost: The cost that freezing should save; where this is the default, the sweep's own.
        axis: The x axis of curves.
        tolerance: Acceptable loss of quality, in points (hundredths of the metric); None for the sweep's own.
        budget: Maximum `cost` of a trial, in the store's unit; None means any.
        freeze: Label of the setting that Tags compares with the baseline.
        level: Whether Tags counts spans, tokens or classes.
        trials: Ids of the trials picked to be compared, in order.
        sort, filters, columns: Of the grid of trials: `score.desc,seed.asc`, AG Grid's JSON, names of columns; empty
            for the best first, none, and those in which trials differ.
        theme: light, dark, or auto (as the system).
        pause: Whether the page ignores new rows.
    """

    sweep: str = ""
    corpus: str = ""
    model: str = ""
    setup: str = ""
    size: tuple[int, ...] = ()
    strategy: tuple[str, ...] = ()
    embeddings: str = "any"
    metric: str = ""
    split: str = "dev"
    cost: str = "training_flops"
    axis: str = "epoch"
    tolerance: float | None = None
    budget: float | None = None
    freeze: str = ""
    level: str = ""
    state: str = "any"
    trials: tuple[str, ...] = ()
    sort: str = ""
    filters: str = ""
    columns: tuple[str, ...] = ()
    theme: str = "auto"
    pause: bool = False

    def search(self) -> str:
        """The query string without defaults; empty if everything has its default."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"?{urlencode({key: _word(value) for key, value in settings.items()}, safe=',')}" if settings else ""

    def but(self, **changes: Any) -> PageQuery:
        """A copy with some changes."""
        return replace(self, **changes)


def parse_query(search: str | None) -> tuple[PageQuery, tuple[str, ...]]:
    """The state in a URL, and a notice for each setting that could not be parsed."""
    try:
        pairs = parse_qsl((search or "").removeprefix("?"), keep_blank_values=True, max_num_fields=60)
    except ValueError:
        return PageQuery(), ("The address has too many settings; all have their defaults.",)
    settings, notices = dict[str, Any](), list[str]()
    for key, text in pairs:
        if key not in _READ:
            notices.append(f"The address has an unknown setting {key[:40]!r}.")
            continue
        try:
            settings[key] = _READ[key](text[: _LONG if key in _LONG_ONES else _LONGEST])
        except ValueError as error:
            notices.append(f"{key}: {error}")
    return PageQuery(**settings), tuple(notices)


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _one_of(options: tuple[str, ...] | Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"{text!r} is not one of {', '.join(options)}; {next(iter(options))} is shown.")
        return text

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number; the default is used.") from None
        if not low <= value <= high:  # false for NaN, too
            raise ValueError(f"{text} is not between {low:g} and {high:g}; the default is used.")
        return value

    return read


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [size for size in text.split(",") if size]
    if not all(size.isascii() and size.isdigit() and len(size) < 12 for size in sizes):
        raise ValueError(f"{text!r} is not a list of train sizes; all are shown.")
    return tuple(sorted({int(size) for size in sizes}))


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split(",") if word))


def _json(text: str) -> str:
    try:
        filters = json.loads(text)
    except (ValueError, RecursionError):
        filters = None
    if not isinstance(filters, dict):
        raise ValueError("these are no filters; none are set.")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "sweep": str,
    "corpus": str,
    "model": str,
    "setup": str,
    "size": _sizes,
    "strategy": _words,
    "embeddings": _one_of(EMBEDDINGS),
    "metric": str,
    "split": _one_of(SPLITS),
    "cost": _one_of(COSTS),
    "axis": _one_of(AXES),
    "tolerance": _number(0.0, 100.0),
    "budget": _number(0.0, 1e18),
    "freeze": str,
    "level": str,
    "state": _one_of(STATES),
    "trials": _words,
    "sort": str,
    "filters": _json,
    "columns": _words,
    "theme": _one_of(THEMES),
    "pause": lambda text: text == "1",
}
