"""A study's own tables with ours beside, as frames; and every number of a study as one long frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from orchestrator.analysis.cells import FreezeName
from orchestrator.extras.published.comparison_tables import NO_TRIAL, Beside, Number
from orchestrator.extras.published.our_results import COUNTED, RELATIVE, SeedMean
from orchestrator.extras.published.study import Exhibit, Metric, PublishedNumber, Study

_NAMES = {
    "trainable_params": "parameters",
    "total_params": "all parameters",
    "trainable_share": "trainable",
    "saved_params": "parameters saved",
    "train_s": "training time",
    "saved_train": "time saved",
    "macro_f1": "token macro F1",
    "span_macro_f1": "entity macro F1",
}
_UNITS = {  # factor, name, decimals
    "share": (100.0, "%", 4),
    "count": (1e-6, "M", 2),
    "s": (1.0, "s", 1),
    "loss": (1.0, "nats", 4),
    "rate": (1.0, "1/s", 2),
}
OURS = "ours freezes"
STATISTICS = ("mean", "median", "std", "min", "max")
Groups = Sequence[tuple[Beside, Sequence[Number]]]


def metric_name(metric: Metric, key: str, column: str) -> str:
    """What a metric is called in a heading: `accuracy`, `accuracy on test`, `parameters saved`."""
    name = _NAMES.get(column) or _NAMES.get(key) or (column or key).replace("_", " ")
    if metric.columns and metric.split == "test":
        name = f"{name} on test"
    return f"{name}, minus baseline" if metric.to_baseline else name


def scaled(metric: Metric, value: float | None) -> float | None:
    """A value in the unit of its heading: percent, millions, seconds."""
    factor, _, digits = _UNITS[metric.unit]
    return None if value is None else round(factor * value, digits)


def unit(metric: Metric) -> str:
    """The unit of a heading."""
    return "points" if metric.to_baseline else _UNITS[metric.unit][1]


def table(study: Study, exhibit: Exhibit, groups: Groups) -> pd.DataFrame:
    """A row per freeze and setting of ours: theirs and ours of each metric in turn, without columns that are empty."""
    rows = [
        _row(study, pairing, list(row))
        for pairing, numbers in groups
        for _, row in groupby(numbers, lambda number: (number.freeze, number.frozen))
    ]
    if exhibit.kind == "statistics":
        rows = [_statistics(study, pairing, number) for pairing, numbers in groups for number in numbers]
    frame = pd.DataFrame(rows)
    if OURS in frame:  # as objects: Pandas makes plain text of names
        frame[OURS] = pd.Series([row[OURS] for row in rows], dtype=object)
    return frame.loc[:, [frame[name].replace("", None).notna().any() for name in frame]]


def _row(study: Study, pairing: Beside, row: Sequence[Number]) -> dict[str, Any]:
    cells: dict[str, Any] = {"setting": study.freezes[row[0].freeze].label, OURS: _ours(pairing, row[0])}
    seeds = 0
    for number in row:
        metric = study.metrics[number.metric]
        name = metric_name(metric, number.metric, number.column)
        cells[f"{name}, theirs ({unit(metric)})"] = _theirs(metric, number.theirs)
        cells[f"{name}, ours ({unit(metric)})"] = scaled(metric, number.ours.mean if number.ours else None)
        if number.column and number.column not in COUNTED and metric.unit == "share":
            cells[f"{name}, verdict"] = number.replication.verdict if number.replication else ""
        if number.ours and number.column not in COUNTED | RELATIVE:
            seeds = max(seeds, number.ours.n)
    return cells | {"seeds": seeds or None, "note": "" if row[0].frozen else NO_TRIAL}


def _ours(pairing: Beside, number: Number) -> str:
    return FreezeName(number.frozen, pairing.setup.spec.model.n_layers) if pairing.setup and number.frozen else ""


def _theirs(metric: Metric, figure: PublishedNumber | None) -> float | str | None:
    if figure is None or figure.low == figure.high:
        return scaled(metric, figure.low if figure else None)
    return f"{scaled(metric, figure.low):g} to {scaled(metric, figure.high):g}"


def _statistics(study: Study, pairing: Beside, number: Number) -> dict[str, Any]:
    metric, figure = study.metrics[number.metric], number.theirs
    theirs = [figure.low, figure.median, figure.std, figure.min, figure.max] if figure else [None] * 5
    judged = number.replication
    return {
        "train size": pairing.group.train_size,
        "frozen layers": study.freezes[number.freeze].label,
        **{f"{name}, theirs (%)": scaled(metric, value) for name, value in zip(STATISTICS, theirs, strict=True)},
        **{f"{name}, ours (%)": scaled(metric, value) for name, value in over_seeds(number.ours).items()},
        "seeds": number.ours.n if number.ours else None,
        "verdict": judged.verdict if judged else "",
        "note": "" if number.frozen else NO_TRIAL,
    }


def over_seeds(ours: SeedMean | None) -> dict[str, float | None]:
    """Mean, median, std, min and max over seeds."""
    if ours is None or not ours.values:
        return dict.fromkeys(STATISTICS)
    values = pd.Series(ours.values)
    statistics = (ours.mean, values.median(), ours.std, values.min(), values.max())
    return dict(zip(STATISTICS, (None if v is None else float(v) for v in statistics), strict=True))


def all_numbers(study: Study, paired: Iterable[tuple[Beside, Number]]) -> pd.DataFrame:
    """A row per number, in the study's units: theirs, ours with its interval, the prediction interval and verdict."""
    rows = [
        {
            "table": pairing.group.id,
            "train size": pairing.setup.spec.train_size if pairing.setup else pairing.group.train_size,
            "setting": study.freezes[number.freeze].label,
            "ours freezes": number.frozen,
            "metric": number.metric,
            "our metric": number.column,
            "epoch": number.at_epoch,
            "unit": study.metrics[number.metric].unit,
            "theirs": number.theirs.low if number.theirs else None,
            "theirs, to": number.theirs.high if number.theirs else None,
            "ours": number.ours.mean if number.ours else None,
            "95 % from": number.ours.low if number.ours else None,
            "95 % to": number.ours.high if number.ours else None,
            "seeds": number.ours.n if number.ours else None,
            "predicted from": number.replication.low if number.replication else None,
            "predicted to": number.replication.high if number.replication else None,
            "verdict": number.replication.verdict if number.replication else "",
            "note": "; ".join(number.notes),
        }
        for pairing, number in paired
    ]
    return pd.DataFrame(rows).drop_duplicates(ignore_index=True)
