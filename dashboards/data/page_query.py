"""The state of a page, all of it in the URL: `?sweep=starter&size=800&strategy=none,first_k`.

What is not in the URL is the default. What cannot be understood is told in a notice and left at its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

SPLITS = ("dev", "test")
EMBEDDINGS = ("any", "frozen", "learning")
COSTS = {
    "training_cost_s": "training time",
    "train_s": "time of the optimiser steps",
    "trainable_params": "trainable parameters",
    "peak_memory_bytes": "peak memory",
    "energy_j": "energy",
}
AXES = {"epoch": "epochs", "train_s": "seconds of training"}
THEMES = ("auto", "light", "dark")
STATES = ("any", "completed or pruned", "failed", "not ended")
_LONGEST = 300


@dataclass(frozen=True)
class Query:
    """What a page shows. An empty word is "as the store has it": the newest sweep, its first corpus, ...

    Attributes:
        sweep, corpus, model, setup: Which trials; `corpus` with its task, as `pos UD_Naija-NSC`.
        size, strategy: Which of their train sizes and strategies; none is all.
        embeddings: Whether only trials with frozen, or with learning, embeddings.
        metric: A metric by name; empty is the one that selects the best epoch.
        split: dev or test.
        cost: What freezing is to save.
        axis: What a curve runs over.
        tolerance: How much quality may be given up, in points (hundredths of the metric).
        budget: The most of `cost` that a trial may need; None is any amount.
        study: A published study to lay over; empty is every one that fits, `off` none.
        freeze: What Tags sets beside the baseline.
        level: What Tags counts.
        state: Which trials the grid lists.
        theme: Light, dark, or as the system has it.
        pause: Whether the page stands still while the sweep runs on.
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
    cost: str = "training_cost_s"
    axis: str = "epoch"
    tolerance: float = 1.0
    budget: float | None = None
    study: str = ""
    freeze: str = ""
    level: str = ""
    state: str = "any"
    theme: str = "auto"
    pause: bool = False

    def search(self) -> str:
        """As a query string, what is the default left out; empty if all is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"?{urlencode({key: _word(value) for key, value in said.items()}, safe=',')}" if said else ""

    def but(self, **changes: Any) -> Query:
        """The same with some changes."""
        return replace(self, **changes)


def parse_query(search: str | None) -> tuple[Query, tuple[str, ...]]:
    """The state that a URL holds, and what of it could not be understood, in words."""
    try:
        pairs = parse_qsl((search or "").removeprefix("?"), keep_blank_values=True, max_num_fields=60)
    except ValueError:
        return Query(), ("The address has too many settings; all are left at their defaults.",)
    found, notices = dict[str, Any](), list[str]()
    for key, text in pairs:
        if key not in _READ:
            notices.append(f"The address sets {key[:40]!r}, which this page does not know.")
            continue
        try:
            found[key] = _READ[key](text[:_LONGEST])
        except ValueError as error:
            notices.append(f"{key}: {error}")
    return Query(**found), tuple(notices)


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _one_of(known: tuple[str, ...] | Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}; {next(iter(known))} is shown.")
        return text

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is no number; the default is used.") from None
        if not low <= value <= high:  # false for NaN, too
            raise ValueError(f"{text} is not within {low:g} and {high:g}; the default is used.")
        return value

    return read


def _sizes(text: str) -> tuple[int, ...]:
    words = [word for word in text.split(",") if word]
    if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        raise ValueError(f"{text!r} are no train sizes; all are shown.")
    return tuple(sorted({int(word) for word in words}))


_READ: dict[str, Callable[[str], Any]] = {
    "sweep": str,
    "corpus": str,
    "model": str,
    "setup": str,
    "size": _sizes,
    "strategy": lambda text: tuple(dict.fromkeys(word for word in text.split(",") if word)),
    "embeddings": _one_of(EMBEDDINGS),
    "metric": str,
    "split": _one_of(SPLITS),
    "cost": _one_of(COSTS),
    "axis": _one_of(AXES),
    "tolerance": _number(0.0, 100.0),
    "budget": _number(0.0, 1e18),
    "study": str,
    "freeze": str,
    "level": str,
    "state": _one_of(STATES),
    "theme": _one_of(THEMES),
    "pause": lambda text: text == "1",
}
