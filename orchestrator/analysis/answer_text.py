"""Answers as the terminal, notebooks and trackers show them: two lines, the curve of losses by depth, then all else.

The curve is drawn in characters, a line a setting: its loss with the interval, and what it saves.

■ □□□□□□ embeddings   3 seeds   0.12 (-0.60 to 1.10)    1 % FLOPs              ├──●┼─────┤ ┊
■ ■■□□□□ first 2      5 seeds   0.85 (-0.10 to 1.90)   31 % FLOPs, 28 % time     ├─┼──●──┊─────┤
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.analysis.freeze_names import FROZEN, TRAINED, layer_strip, strip_and_word
from orchestrator.config.quantities import amount
from trials.escaping import escape_line
from trials.record import MEMORY
from trials.spec import BASELINE

if TYPE_CHECKING:  # loads pandas
    from orchestrator.analysis.answer import Answer

NO_ANSWER = "no answer: the sweep has no setting that freezes anything beside a baseline."


def lines_of(answer: Answer) -> list[str]:
    """One answer in two lines: what to freeze, with its layer strip; what it loses and saves, and how sure that is."""
    strip = layer_strip(answer.freeze_spec, answer.n_layers) if answer.freeze_spec else ""
    first, second = answer.lines
    return [f"{strip}  {escape_line(first)}".strip(), escape_line(second)]


def notes_of(answer: Answer) -> list[str]:
    """Everything else that is known about an answer, one line each: conditions, settings left out, the runner-up."""
    second = ""
    if answer.runner_up_spec and answer.decided:
        second = strip_and_word(answer.runner_up_spec, answer.n_layers)
    return [*map(escape_line, answer.notes), *([f"Runner-up: {second}."] if second else [])]


LEAST_WIDTH = 14  # columns; in less room the plot stands below the table
WIDTH = 36  # width of the plot, in characters
_MEAN, _LINE, _LOW, _HIGH, _ZERO, _LIMIT = "●─├┤│┊"


class Loss(NamedTuple):
    """A loss in points; ends are None where there is no interval."""

    mean: float
    low: float | None
    high: float | None


def plot(losses: Sequence[Loss | None], tolerance: float, width: int = WIDTH) -> list[str]:
    """A line for each loss, all on one scale: `●` the mean, `├─┤` the interval, `│` no loss, `┊` the tolerance.

    Ends beyond the scale are cut off without their bracket. Empty lines where nothing is known.
    """
    known_losses = [loss for loss in losses if loss is not None]
    if not known_losses:
        return ["" for _ in losses]
    means = [loss.mean for loss in known_losses]
    top = max(
        1.25 * tolerance,
        1.2 * max(means),
        # An interval may reach far beyond its mean, and would flatten all others.
        *(min(loss.high or 0.0, 2 * max(*means, tolerance)) for loss in known_losses),
    )
    bottom = min(0.0, *means, *(max(loss.low or 0.0, -top) for loss in known_losses)) - 0.05 * top

    def column(value: float) -> int:
        return round((value - bottom) / (top - bottom) * (width - 1))

    lines = []
    for loss in losses:
        line = [" "] * width
        if loss is not None and loss.low is not None and loss.high is not None:
            low, high = column(loss.low), column(loss.high)
            for place in range(max(low, 0), min(high, width - 1) + 1):
                line[place] = _LINE
            for place, bracket in ((low, _LOW), (high, _HIGH)):
                if 0 <= place < width:
                    line[place] = bracket
        for value, mark in ((0.0, _ZERO), (tolerance, _LIMIT)):
            place = column(value)
            line[place] = {" ": mark, _LINE: "┼"}.get(line[place], line[place])
        if loss is not None:
            line[min(max(column(loss.mean), 0), width - 1)] = _MEAN
        lines.append("".join(line).rstrip())
    return lines


def curve_lines(answer: Answer, columns: int = 100) -> list[str]:
    """The table and the plot of an answer, a line a setting from the least frozen to the most; then what each tolerance
    buys. Empty before a pair of runs has ended.
    """
    settings = [(freeze, row) for freeze, row in zip(answer.freezes, answer.settings, strict=True) if row["n_pairs"]]
    if not settings:
        return []
    rows = [row for _, row in settings]
    open_ones = any(row["chance"] is not None for row in rows)
    cells = [("freeze", "seeds", "loss (interval)", "saves", "chance")]
    for freeze, row in settings:
        label = strip_and_word(freeze, answer.n_layers)
        chance = "" if row["chance"] is None else _percent(row["chance"])
        cells.append((label, str(row["n_pairs"]), _loss(row), _savings(row, answer.cost), chance))
    text = _align(cells, (0, 1, 2, 4, 3) if open_ones else (0, 1, 2, 3))
    beside, table, losses = text, list[str](), [Loss(row["loss"], row["low"], row["high"]) for row in rows]
    if (room := columns - len(text[0]) - 2) < LEAST_WIDTH:  # the plot stands below the table, and the chance beside it
        beside, text = _align(cells, (0, 4) if open_ones else (0,)), _align(cells, (0, 1, 2, 3))
        words = [(label.lstrip(f"{FROZEN}{TRAINED} "), *rest) for label, *rest in cells]  # strips stand beside the plot
        brief = [(word, n, loss, saves.partition(",")[0]) for word, n, loss, saves, _ in words]
        for narrower in (words, brief):
            text = text if len(text[0]) <= columns else _align(narrower, (0, 1, 2, 3))
        table, room = [line.rstrip() for line in text], columns - len(beside[0]) - 2
    drawn = ["loss in points", *plot(losses, answer.tolerance, min(max(room, LEAST_WIDTH), WIDTH))]
    below = [
        f"● mean, ├─┤ interval, │ no loss, ┊ the tolerance of {amount(answer.tolerance, 'point')}",
        *(["chance: that what is not decided is within the tolerance; no verdict"] if open_ones else []),
        *tolerance_lines(answer, columns),
    ]
    return [
        *table,
        *(f"{beginning}  {right}".rstrip() for beginning, right in zip(beside, drawn, strict=True)),
        *(part for line in below for part in wrap(line, columns, subsequent_indent="    ")),
    ]


def _align(cells: Sequence[Sequence[str]], which: Sequence[int]) -> list[str]:
    """Lines of equal length with these columns of the cells."""
    widths = [max(len(line[column]) for line in cells) for column in which]
    return ["  ".join(line[column].ljust(width) for column, width in zip(which, widths, strict=True)) for line in cells]


def tolerance_lines(answer: Answer, columns: int = 200) -> list[str]:
    """What each tolerance buys with the trials so far, in lines that are wrapped at this width where they can be."""
    from orchestrator.analysis.wording import beyond_texts, bought_text, tolerance_that_buys  # loads pandas

    buys = [
        (tolerance_that_buys(bought.tolerance), bought_text(bought, answer.n_layers))
        for bought in answer.decided_by.trade_offs
    ]
    # The tolerance that was asked for has its line, even where it buys nothing.
    own = [] if any(limit <= answer.tolerance for limit, _ in buys) else [(answer.tolerance, _no_freeze(answer))]
    return [
        "what each tolerance buys:",
        *(f"  within {amount(limit, 'point')}: {text}" for limit, text in sorted([*own, *buys])),
        *(f"  {line}" for text in beyond_texts(answer.decided_by.n_beyond) for line in wrap(text, columns - 2)),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _no_freeze(answer: Answer) -> str:
    return "nothing to freeze" if answer.freeze == BASELINE.label else "not decided"


def _loss(row: Mapping[str, Any]) -> str:
    ends = "" if row["low"] is None or row["high"] is None else f" ({row['low']:z.2f} to {row['high']:z.2f})"
    return f"{row['loss']:z.2f}{ends}"


_COSTS = {"training_flops": "FLOPs", "training_cost_s": "time", "trainable_params": "parameters", MEMORY: "memory"}
_KNOWN = {"saved_flops": "training_flops", "saved_time": "training_cost_s", "saved_memory": MEMORY}


def _savings(row: Mapping[str, Any], cost: str) -> str:
    """`31 % FLOPs, 28 % time`: the cost that the answer is about, then others that are known."""
    saved = {cost: row["saved"]} | {name: row[key] for key, name in _KNOWN.items() if row[key] is not None}
    shares = {_COSTS.get(name, name): value for name, value in saved.items() if value is not None}
    return ", ".join(f"{_percent(value)} {name}" for name, value in shares.items())
