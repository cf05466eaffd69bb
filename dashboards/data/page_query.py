"""The state of a page, which is all in its URL: `?sweep=starter&size=800&strategy=none,first_k`.

Settings that are not in the URL have their defaults. Settings that cannot be parsed give a notice and keep theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, get_type_hints
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from trials.outside.validation_rules import rule_of
from trials.record import SAVED

SPLITS = ("dev", "test")
EMBEDDINGS = ("any", "frozen", "learning")
COSTS = SAVED
AXES = {"epoch": "epochs", "train_s": "training time"}
THEMES = ("auto", "light", "dark")
STATES = ("any", "completed or pruned", "failed", "not ended")
_LONGEST, _LONG = 300, 3000
_LONG_ONES = ("filters", "columns", "trials")


def _one_of(options: tuple[str, ...] | Mapping[str, str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return text

    return AfterValidator(check)


def _filters(text: str) -> str:
    try:
        filters = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        filters = None
    if not isinstance(filters, dict):
        raise ValueError("must be filters as JSON")
    return text


_LISTED = BeforeValidator(lambda text: [word for word in text.split(",") if word] if isinstance(text, str) else text)
Sizes = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=10**11)], ...], _LISTED, AfterValidator(lambda s: tuple(sorted({*s})))
]
Words = Annotated[tuple[str, ...], _LISTED, AfterValidator(lambda words: tuple(dict.fromkeys(words)))]
Points = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]


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
    size: Sizes = ()
    strategy: Words = ()
    embeddings: Annotated[str, _one_of(EMBEDDINGS)] = "any"
    metric: str = ""
    split: Annotated[str, _one_of(SPLITS)] = "dev"
    cost: Annotated[str, _one_of(COSTS)] = "training_flops"
    axis: Annotated[str, _one_of(AXES)] = "epoch"
    tolerance: Points | None = None
    budget: Amount | None = None
    freeze: str = ""
    level: str = ""
    state: Annotated[str, _one_of(STATES)] = "any"
    trials: Words = ()
    sort: str = ""
    filters: Annotated[str, AfterValidator(_filters)] = ""
    columns: Words = ()
    theme: Annotated[str, _one_of(THEMES)] = "auto"
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
    readers = _readers()
    for key, text in pairs:
        if key not in readers:
            notices.append(f"The address has an unknown setting {key[:40]!r}.")
            continue
        try:
            settings[key] = readers[key].validate_python(text[: _LONG if key in _LONG_ONES else _LONGEST])
        except ValidationError as error:
            notices.append(f"{key}: {text[:40]!r} {rule_of(error.errors()[0])}; the default is used.")
    return PageQuery(**settings), tuple(notices)


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _readers() -> dict[str, TypeAdapter[Any]]:
    """What reads each setting from its text, by its type."""
    return {name: TypeAdapter(kind) for name, kind in get_type_hints(PageQuery, include_extras=True).items()}
