"""Names and numbers as Plotly may write them."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.freeze_names import FreezeName, freeze_name, layer_strip
from trials.escaping import escaped

_MAX_NAME = 60


def name(text: object, at_most: int = _MAX_NAME) -> str:
    """A name from the data as Plotly may write it: short, without HTML and without a template field (`%{x}`)."""
    return html.escape(short(text, at_most)).replace("%{", "%&#123;")


def short(text: object, at_most: int = _MAX_NAME) -> str:
    """A name cut to what a figure has room for, of visible characters; not escaped for HTML."""
    full = escaped(str(text))
    return full if len(full) <= at_most else f"{full[: at_most - 1]}…"


def freeze_column(labels: pd.Series, n_layers: pd.Series) -> pd.Series:
    """Freeze labels and the encoders' numbers of layers as a column of `FreezeName`, empty where there is no label."""
    pairs = list(zip(labels, n_layers, strict=True))
    names = {
        (label, n): "" if pd.isna(label) else FreezeName(str(label), 0 if pd.isna(n) else int(n))
        for label, n in dict.fromkeys(pairs)
    }
    return pd.Series([names[pair] for pair in pairs], index=labels.index, dtype=object)


def cell_name(row: Any, *, several: bool) -> str:
    """What a cell freezes, with its layer strip, and its train size if there are several; escaped."""
    label = with_strip(str(row.freeze), int(row.n_layers), name(freeze_name(row.freeze, int(row.n_layers))))
    return f"{label}, {row.train_size:,}" if several else label


def with_strip(label: str, n_layers: int, text: str, between: str = " ") -> str:
    """The layer strip of a freeze label, if it has one, before its words."""
    squares = layer_strip(label, n_layers)
    return f"{squares}{between}{text}" if squares else text


def numbers(values: npt.ArrayLike, scale: float = 1.0, digits: int = 4) -> list[float | None]:
    """Numbers as JSON can hold them: scaled, rounded, None for NaN and infinities."""
    scaled = np.round(np.asarray(values, dtype=np.float64) * scale, digits)
    return [value if ok else None for value, ok in zip(scaled.tolist(), np.isfinite(scaled).tolist(), strict=True)]
