"""What a setting freezes, in words and as a row of squares, the layer strip: filled where frozen, the embeddings first.

    first 2 + embeddings of 6 layers: ■ ■■□□□□

Both are made from a `FreezeSpec`, which every frame of trials and every table of losses holds in its column
`freeze_spec`. A column of a table for people holds `FreezeName`s: text, to which each kind of table adds the strip in
its own way.

Of gradual unfreezing: `froze 4 to 0 of 6 layers, 2.4 on average over steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from orchestrator.config.quantities import amount
from trials.escaping import escape_line
from trials.freeze.strategies import LAYERS, look_of
from trials.spec import FreezeSpec, TrialSpec

if TYPE_CHECKING:  # `status --trials` needs no pandas
    import pandas as pd

FROZEN, TRAINED = "■", "□"
ALL = "all"  # layers
LEGEND = f"{FROZEN} frozen, {TRAINED} trained: first the embeddings, then the layers from the input up"
MOST_LAYERS = 48  # a longer strip is not taken in at a glance


class FreezeName(str):
    """What a setting freezes, spelled out for people: `first 4 + embeddings`.

    Attributes:
        squares: `■ ■■■■□□`; empty if there is none.
        heard: The same in words.
    """

    squares: str
    heard: str

    def __new__(cls, freeze: FreezeSpec, n_layers: int) -> Self:
        """The name of a setting in an encoder of `n_layers` layers."""
        made = super().__new__(cls, freeze_name(freeze, n_layers))
        made.squares, made.heard = layer_strip(freeze, n_layers), strip_in_words(freeze, n_layers)
        return made


def freeze_name(freeze: FreezeSpec, n_layers: int) -> str:
    """A freeze spelled out: `layers 0,1,4+E` becomes `layers 1 to 2, 5 + embeddings`.

    Sets of layers are counted from 1, as in the strip; in labels, as in YAML, they are counted from 0. What freezes all
    of `n_layers` layers is `all`, whichever strategy does; 0 where their number is not known.
    """
    return _word(freeze, n_layers) + (" + embeddings" if freeze.label != freeze.word else "")


def _word(freeze: FreezeSpec, n_layers: int) -> str:
    """Its name without the embeddings."""
    if n_layers and freeze.depth == n_layers:
        return ALL  # `first 6` and `last 6` of six layers freeze the same
    if freeze.layers and (freeze.strategy == LAYERS or freeze.chooser):
        return escape_line(_layer_list(freeze.layers) + freeze.chooser)
    return escape_line(freeze.word)


def strip_and_word(freeze: FreezeSpec, n_layers: int) -> str:
    """`■ ■■■■□□ first 4`, for narrow columns: the first square says whether the embeddings are frozen."""
    squares = layer_strip(freeze, n_layers)
    return f"{squares} {_word(freeze, n_layers)}" if squares else freeze_name(freeze, n_layers)


def layer_strip(freeze: FreezeSpec, n_layers: int) -> str:
    """`■ ■■□□□□`; empty for an encoder with no known number of layers or more than `MOST_LAYERS`."""
    if not 0 < n_layers <= MOST_LAYERS:
        return ""
    layers = "".join(FROZEN if layer in freeze.layers else TRAINED for layer in range(n_layers))
    return f"{FROZEN if freeze.embeddings else TRAINED} {layers}"


def strip_in_words(freeze: FreezeSpec, n_layers: int) -> str:
    """Text for screen readers, `layers 1 to 2 of 6 and the embeddings frozen`; the label where `n_layers` is 0."""
    if not n_layers:
        return freeze.label
    if freeze.depth == n_layers:
        layers = f"all {n_layers} layers"
    elif freeze.layers:
        layers = f"{_layer_list(freeze.layers)} of {n_layers}"
    else:
        layers = ""
    phrase = " and ".join(filter(None, [layers, "the embeddings" if freeze.embeddings else ""]))
    return f"{phrase or f'none of {n_layers} layers'} frozen"


def parts(freeze: FreezeSpec, n_layers: int | None = None) -> str:
    """What a freeze consists of: `first 4+E` is `the first 4 of 6 layers and the embeddings`.

    Sets of layers are counted from 1, as in the strip: `layers 0,3` is `layers 1, 4 of 6`, and so is what any other
    strategy freezes.
    """
    embeddings = " and the embeddings" if freeze.embeddings else ""
    if n_layers and freeze.depth == n_layers:
        return f"all {n_layers} layers{embeddings}"
    if freeze.is_embeddings_alone:
        return "the embeddings"
    if phrase := look_of(freeze.strategy).phrase:
        size = amount(freeze.depth, "layer") if n_layers is None else f"{freeze.depth} of {n_layers} layers"
        return phrase.format(layers=size) + embeddings
    return freeze.label if n_layers is None else strip_in_words(freeze, n_layers).removesuffix(" frozen")


def _layer_list(layers: Sequence[int]) -> str:
    """`layer 3`, `layers 1 to 4`, `layers 1, 3, 5`: counted from 1."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    ranges = (f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1} to {run[-1] + 1}" for run in runs)
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(ranges)}"


def dropout_sentence(with_dropout: bool) -> str:
    """Under which of two conditions a freeze was measured; scores differ by up to two points."""
    if with_dropout:
        return "Frozen layers ran with dropout, as in transformers.Trainer."
    return "Frozen layers ran without dropout; in other training code, put them in eval mode."


_MEASURED = ["frozen_layers", "mean_frozen_layers"]
_COLUMNS = ["depth", "n_layers", *_MEASURED]


def freeze_changes(spec: TrialSpec, row: dict[str, Any]) -> str:
    """What a trial froze, by its row of the store; empty if that never changed, or was not recorded."""
    planned = {"depth": spec.freeze.depth, "n_layers": spec.model.n_layers}
    return _words([planned | {name: row[name] for name in _MEASURED}])


def freeze_changes_by(frame: pd.DataFrame, key: str) -> dict[str, str]:
    """`freeze_changes` by `trial_id`, or by `cell` over its trials, for those in which what is frozen changed.

    Args:
        frame: As of `trial_frame`.
        key: One of these columns.
    """
    if not set(_COLUMNS) <= set(frame.columns):
        return {}
    frame = frame[[key, *_COLUMNS]]
    ended = frame["frozen_layers"]
    changing = frame[ended.notna() & (ended != frame["depth"])]
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in changing.to_dict("records"):
        rows.setdefault(row[key], []).append(row)
    return {name: _words(trials) for name, trials in rows.items()}


def _words(rows: Sequence[dict[str, Any]]) -> str:
    """How what is frozen changed, in words, in trials that froze the same at first."""
    (first,), n_layers = {row["depth"] for row in rows}, rows[0]["n_layers"]
    ends, means = (
        [row[name] for row in rows if row[name] is not None and row[name] == row[name]] for name in _MEASURED
    )
    if {*ends} <= {first}:
        return ""
    text = f"froze {first:g} to {max(ends, key=lambda end: abs(end - first)):g} of {n_layers} layers"
    if len({*ends}) > 1:
        text += f" ({min(ends):g} to {max(ends):g} at the end)"
    return text + (f", {sum(means) / len(means):.1f} on average over steps" if means else "")
