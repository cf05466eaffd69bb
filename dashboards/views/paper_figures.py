"""A study's own figures with ours beside. Theirs is hollow or dashed, ours filled, in the colour of the setting."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any

from dashboards.views.kit.drawing import axis_name, freeze_name, name, panels
from dashboards.views.kit.theme import LIGHT, Figure, axis, dodge, empty_figure, layout
from dashboards.views.paper_tables import Groups, metric_name, scaled, unit
from orchestrator.extras.published.comparison_tables import Beside, Number
from orchestrator.extras.published.our_results import SeedMean, Trial, measure
from orchestrator.extras.published.study import UNKNOWN, Exhibit, Metric, Study
from trials.freeze.strategies import frozen_layers

_LOOK = LIGHT
_SIDES = ("theirs", "ours")


def figure(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """An exhibit as a figure."""
    drawn = _KINDS[exhibit.kind](study, exhibit, groups)
    return (
        drawn
        if drawn["data"]
        else empty_figure(_LOOK, "The study prints no number of this figure, and no trial of ours fits it.")
    )


def _colour(study: Study, freeze: str) -> str:
    """Colour of a setting: by its depth, of the strategy if it leaves gaps, of the text if nothing is frozen."""
    setting, n_layers = study.freezes[freeze], study.protocol.n_layers
    if setting.layers == () and not setting.embeddings:
        return _LOOK.text
    layers = () if setting.layers == UNKNOWN else setting.layers
    if layers and layers != tuple(range(layers[0], layers[-1] + 1)):
        return _LOOK.strategy(setting.strategy)[0]
    depth = max(setting.depths) if setting.depths else len(setting.layers)
    return _LOOK.depth(depth, depth if n_layers == UNKNOWN else n_layers)


def _errors(metric: Metric, ours: Sequence[SeedMean | None]) -> dict[str, Any]:
    """The 95 % intervals over seeds."""
    up = [scaled(metric, o.high - o.mean) if o and o.high is not None else None for o in ours]
    down = [scaled(metric, o.mean - o.low) if o and o.low is not None else None for o in ours]
    return _spread(_LOOK.muted, up, down)


def _spread(colour: str, up: Sequence[float | None], down: Sequence[float | None]) -> dict[str, Any]:
    bars = {"type": "data", "symmetric": False, "color": colour, "thickness": 1.5, "width": 4}
    return bars | {"array": up, "arrayminus": down}


def _labels(study: Study, numbers: Iterable[Number]) -> list[str]:
    return list(dict.fromkeys(name(study.freezes[number.freeze].label) for number in numbers))


def _title(study: Study, metric: str, column: str) -> str:
    study_metric = study.metrics[metric]
    return f"{metric_name(study_metric, metric, column)} ({unit(study_metric)})"


def _bars(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """A bar per freeze, metric and side, from zero as in the study."""
    numbers = [number for _, rows in groups for number in rows]
    series = list(dict.fromkeys((number.metric, number.column) for number in numbers))
    traces: list[dict[str, Any]] = []
    for colour, (key, column) in zip(cycle(_FILLS), series, strict=False):
        metric, rows = study.metrics[key], [n for n in numbers if (n.metric, n.column) == (key, column)]
        theirs = [scaled(metric, n.theirs.low if n.theirs else None) for n in rows]
        ours = [scaled(metric, n.ours.mean if n.ours else None) for n in rows]
        prefix = f"{metric_name(metric, key, column)}, " if len(series) > 1 else ""
        bars = [_bar(f"{prefix}theirs", _labels(study, rows), theirs, _LOOK.paper)]
        bars.append(_bar(f"{prefix}ours", _labels(study, rows), ours, colour))
        bars[1]["error_y"] = _errors(metric, [n.ours for n in rows])
        traces += [bar for bar in bars if any(value is not None for value in bar["y"])]
    y = axis(_title(study, *series[0]) if len(series) == 1 else f"score ({unit(study.metrics[series[0][0]])})")
    top = max([value for trace in traces for value in trace["y"] if value is not None], default=1)
    drawn = layout(_LOOK, x={**axis(""), "type": "category"}, y={**y, "range": [0, 1.15 * top]}, barmode="group")
    return {"data": traces, "layout": drawn}


_FILLS = ("#0072B2", "#E69F00")


def _bar(label: str, x: list[str], y: list[float | None], fill: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": label,
        "x": x,
        "y": y,
        "text": ["" if value is None else f"{value:.4g}" for value in y],
        "textposition": "outside",
        "textfont": {"color": _LOOK.text, "size": 12},
        "marker": {"color": fill, "line": {"color": _LOOK.text, "width": 1.5}},
    }


def _epochs(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """A line per freeze over epochs; theirs dashed with hollow diamonds."""
    numbers = [number for _, rows in groups for number in rows]
    traces = []
    for freeze in dict.fromkeys(number.freeze for number in numbers):
        rows = sorted((n for n in numbers if n.freeze == freeze and n.at_epoch), key=lambda n: n.at_epoch or 0)
        for side in _SIDES:
            points = [(n.at_epoch, getattr(n, side)) for n in rows if getattr(n, side)]
            values = [value.low if side == "theirs" else value.mean for _, value in points]
            metric = study.metrics[rows[0].metric] if rows else None
            if points and metric:
                line = _line(f"{study.freezes[freeze].label}, {side}", _colour(study, freeze), hollow=side == "theirs")
                traces.append(line | {"x": [e for e, _ in points], "y": [scaled(metric, value) for value in values]})
    y = axis(_title(study, numbers[0].metric, numbers[0].column))
    return {"data": traces, "layout": layout(_LOOK, x=axis("epoch", dtick=1), y=y, height=460)}


def _line(label: str, colour: str, *, hollow: bool) -> dict[str, Any]:
    marker = {"symbol": _SYMBOLS[hollow], "size": 10 if hollow else 8, "color": colour}
    line = {"color": colour, "width": 2, "dash": "dash" if hollow else "solid"}
    return {"type": "scatter", "mode": "lines+markers", "name": name(label), "line": line, "marker": marker}


def _marks(label: str, points: Sequence[tuple[Any, Any]], **marker: Any) -> dict[str, Any]:
    """A trace of points, given as pairs of x and y."""
    x, y = ([point[n] for point in points] for n in (0, 1))
    return {"type": "scatter", "mode": "markers", "name": label, "x": x, "y": y, "marker": marker}


def _theirs(label: str, points: Sequence[tuple[Any, Any]], size: int) -> dict[str, Any]:
    """Hollow diamonds."""
    return _marks(label, points, symbol=_SYMBOLS[True], size=size, color=_LOOK.text, line={"width": 2})


_SYMBOLS = {True: "diamond-open", False: "circle"}  # theirs and ours


def _scatter(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """The second metric against the first."""
    across, up = exhibit.metrics
    traces: list[dict[str, Any]] = []
    for side in _SIDES:
        points = []
        for _, rows in groups:
            for key in dict.fromkeys((n.freeze, n.frozen) for n in rows):
                pair = {n.metric: getattr(n, side) for n in rows if (n.freeze, n.frozen) == key}
                if pair.get(across) and pair.get(up):
                    points.append((key[0], pair[across], pair[up]))
        if points:
            traces.append(_points(study, side, points, (study.metrics[across], study.metrics[up]), named=not traces))
    x, y = (axis(_title(study, metric, metric)) for metric in (across, up))
    return {"data": traces, "layout": layout(_LOOK, x=x, y=y, height=460)}


def _points(
    study: Study, side: str, points: Sequence[tuple[str, Any, Any]], metrics: tuple[Metric, Metric], *, named: bool
) -> dict[str, Any]:
    mean = "low" if side == "theirs" else "mean"
    places = [(scaled(metrics[0], getattr(x, mean)), scaled(metrics[1], getattr(y, mean))) for _, x, y in points]
    colours = [_colour(study, freeze) for freeze, _, _ in points]
    trace = _marks(side, places, symbol=_SYMBOLS[side == "theirs"], size=12, color=colours, line={"width": 2}) | {
        "mode": "markers+text" if named else "markers",
        "text": [name(study.freezes[freeze].label) for freeze, _, _ in points],
        "textposition": "bottom center",
        "cliponaxis": False,
    }
    return trace if side == "theirs" else trace | {"error_y": _errors(metrics[1], [y for _, _, y in points])}


_ENDS = {"first_k": "lower layers, ours", "last_k": "upper layers, ours"}  # what such a figure compares


def _depths(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """Lower and upper layers as lines over the number of frozen layers, a panel per metric of ours."""
    series = [(key, column) for key in exhibit.metrics for column in study.metrics[key].columns]
    drawn = panels(
        _LOOK, axis("frozen layers", dtick=1), [_title(study, key, column) for key, column in series], panel_height=220
    )
    traces: list[dict[str, Any]] = []
    for panel, (key, column) in enumerate(series):
        for pairing, rows in groups:
            parts = [
                *_ends(study, key, column, pairing),
                *_published_depths(study, [n for n in rows if n.metric == key and n.column == column]),
            ]
            traces += [part | {"yaxis": axis_name(panel), "showlegend": False} for part in parts]
    seen: set[str] = set()
    for trace in traces:
        trace["showlegend"] = trace["name"] not in seen
        seen.add(trace["name"])
    return {"data": traces, "layout": drawn}


def _ends(study: Study, key: str, column: str, pairing: Beside) -> Iterable[dict[str, Any]]:
    """Our two lines; nothing frozen and everything frozen belong to both."""
    cells: Sequence[tuple[Trial, ...]] = list(pairing.setup.cells.values()) if pairing.setup else []
    metric = study.metrics[key]
    for strategy, label in _ENDS.items():
        colour, symbol, dash = _LOOK.strategy(strategy)
        points = []
        for cell in cells:
            freeze = cell[0].spec.freeze
            layers = frozen_layers(strategy, cell[0].spec.model.n_layers, freeze.depth)
            if frozenset(freeze.layers) == layers and freeze.rule is None and pairing.setup and not freeze.embeddings:
                value = measure(metric, None, pairing.setup, cell[0].spec.cell_id, column=column)
                points += [(freeze.depth, value)] * (value is not None)
        points.sort(key=lambda point: point[0])
        if points:
            places = [(depth, scaled(metric, value.mean if value else None)) for depth, value in points]
            yield _marks(label, places, symbol=symbol, size=8, color=colour) | {
                "mode": "lines+markers",
                "error_y": _errors(metric, [value for _, value in points]),
                "line": {"color": colour, "dash": dash, "width": 2},
            }


def _published_depths(study: Study, rows: Sequence[Number]) -> Iterable[dict[str, Any]]:
    """A hollow diamond at a published number; a line across the depths that a published number may belong to."""
    for number in {n.freeze: n for n in rows if n.theirs}.values():
        freeze, theirs, metric = study.freezes[number.freeze], number.theirs, study.metrics[number.metric]
        assert theirs is not None
        span = list(freeze.depths) if freeze.depths else [len(freeze.layers)]
        half = scaled(metric, (theirs.high - theirs.low) / 2)
        bars = (
            {"error_y": {"type": "data", "array": [half] * len(span), "color": _LOOK.text, "width": 4}} if half else {}
        )
        places = [(depth, scaled(metric, (theirs.low + theirs.high) / 2)) for depth in span]
        line = {"color": _LOOK.text, "width": 2, "dash": "dot"}
        yield (
            bars
            | _theirs("theirs (lower or upper layers not said)", places, 12)
            | {"mode": "lines+markers", "line": line}
        )


def _runs(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """A dot per run of ours by freeze and a panel per train size; theirs as mean with its range."""
    titles = [f"n = {pairing.group.train_size:,}" for pairing, _ in groups]
    labels = list(dict.fromkeys(study.freezes[n.freeze].label for _, rows in groups for n in rows))
    ticks = ["<br>".join(map(name, textwrap.wrap(label, 12))) for label in labels]
    x = axis("frozen layers", tickvals=list(range(len(labels))), ticktext=ticks, range=[-0.5, len(labels) - 0.5])
    x["tickangle"] = 0
    traces = [
        trace | {"yaxis": axis_name(panel), "showlegend": panel == 0}
        for panel, (_, rows) in enumerate(groups)
        for trace in _runs_of(study, rows, labels)
    ]
    title = _title(study, exhibit.metrics[0], exhibit.metrics[0])
    return {
        "data": traces,
        "layout": panels(_LOOK, x, [f"{heading}<br>{title}" for heading in titles], panel_height=190),
    }


def _runs_of(study: Study, rows: Sequence[Number], labels: Sequence[str]) -> list[dict[str, Any]]:
    published = [(labels.index(study.freezes[n.freeze].label), n.theirs) for n in rows if n.theirs]
    metric = study.metrics[rows[0].metric]
    dots = [
        (labels.index(study.freezes[n.freeze].label) + 0.2 + 0.5 * shift, value)
        for n in rows
        if n.ours
        for shift, value in zip(dodge(range(len(n.ours.values)), len(n.ours.values)), n.ours.values, strict=True)
    ]
    means = [(place - 0.15, scaled(metric, t.low)) for place, t in published]
    theirs = _theirs("theirs: mean, lowest and highest of 5 runs", means, 9)
    up = [scaled(metric, (t.max or t.low) - t.low) for _, t in published]
    down = [scaled(metric, t.low - (t.min or t.low)) for _, t in published]
    theirs["error_y"] = _spread(_LOOK.text, up, down)
    runs = [(place, scaled(metric, value)) for place, value in dots]
    ours = _marks("ours: one dot per run", runs, symbol="circle", size=6, color="#D55E00")
    return [trace for trace, points in ((theirs, published), (ours, dots)) if points]


def _steps(study: Study, exhibit: Exhibit, groups: Groups) -> Figure:
    """The training loss of every step of one run of ours per freeze; none of the studies prints its own."""
    labels = {n.freeze: n.frozen for _, rows in groups for n in rows}
    drawn = panels(
        _LOOK, axis("step"), [f"{name(study.freezes[f].label)}<br>training loss" for f in labels], panel_height=230
    )
    traces = []
    for pairing, _ in groups:
        for panel, (freeze, label) in enumerate(labels.items()):
            run = min(
                (t for t in pairing.trials if t.spec.freeze.label == label), key=lambda t: t.spec.seed, default=None
            )
            losses = [loss for row in run.epochs for loss in row.get("step_losses") or ()] if run else []
            if run and losses:
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": f"{name(freeze_name(label))}, ours, seed {run.spec.seed}",
                        "x": list(range(1, len(losses) + 1)),
                        "y": [round(loss, 5) for loss in losses],
                        "yaxis": axis_name(panel),
                        "line": {"color": _colour(study, freeze), "width": 1},
                    }
                )
    return {"data": traces, "layout": drawn}


_KINDS: dict[str, Callable[[Study, Exhibit, Groups], Figure]] = {
    "bars": _bars,
    "epochs": _epochs,
    "scatter": _scatter,
    "depths": _depths,
    "runs": _runs,
    "steps": _steps,
}
