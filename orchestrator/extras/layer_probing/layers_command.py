"""What each layer of the untouched encoder knows, and how far training moved it, beside what freezing loses.

permafrost layers --sweep my.yaml
permafrost layers --data my-treebank --model starter
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.freeze_names import layer_strip
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, say, stdout
from orchestrator.config.quantities import counted, points
from orchestrator.extras.layer_probing.layer_probing import Layers
from orchestrator.extras.layer_probing.layer_probing import layers as probe_layers
from trials.errors import ConfigError
from trials.metrics.metric import metric_label
from trials.settings import first_layers

if TYPE_CHECKING:
    import pandas as pd


def layers(
    sweep: Annotated[Path | None, typer.Option(metavar="FILE", help="The YAML file of a sweep.")] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Instead of a sweep, with --model and --task: as of `permafrost choose`."),
    ] = None,
    model: options.Model = "starter",
    task: options.Task = None,
    store: options.Store = DEFAULT_STORE,
    offline: options.Offline = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Probe every layer of the untouched encoder, and measure how far training moved it; the store keeps both.

    A linear probe learns from the same train subsets as the trials and is scored on dev. Drift needs trials whose
    weights were kept (`keep: weights`). What the store has is not computed again.

    Examples:
        permafrost layers --sweep my.yaml --store results

        permafrost layers --data UD_Naija-NSC-sample --model starter

    Exit codes: 0 done, 2 invalid option, 3 missing or broken file.
    """
    with reported(debug=debug):
        if (sweep is None) == (data is None):
            raise ConfigError("give either --sweep FILE or --data DATA.")
        probed = probe_layers(sweep, data=data, task=task, model=model, store=store, offline=offline)
        if as_json:
            print(json.dumps(_rows(probed.curves)))
            return
        for table in curve_tables(probed.curves):
            stdout.print(table)
        _say_what_is_missing(probed, sweep, store)


def _say_what_is_missing(probed: Layers, sweep: Path | None, store: str) -> None:
    if probed.n_probes or probed.n_drifts:
        say(
            f"store   {counted(probed.n_probes, 'probe')} and {counted(probed.n_drifts, 'row')} of drift "
            f"added to {store}"
        )
    if probed.without_weights:
        trials = counted(probed.without_weights, "completed trial")
        say(f"note    {trials} without stored weights: drift needs `keep: weights` in the sweep's file")
    if sweep is not None and not probed.curves["n_pairs"].any():
        say(f"note    no freeze is complete yet: `permafrost launch --sweep {sweep}` adds what freezing loses")


def _rows(curves: pd.DataFrame) -> list[dict[str, Any]]:
    """JSON values; null for what was not measured."""
    rows: list[dict[str, Any]] = curves.to_dict("records")
    return [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]


TOLERANCE = 0.01  # 1 point, that of every command unless told


def curve_tables(curves: pd.DataFrame) -> Iterator[RenderableType]:
    """A table for each setting of the baseline, one row per depth, with the layers that ran as a strip."""
    from orchestrator.extras.layer_probing.layer_curves import findings  # loads pandas

    for _, rows in curves.groupby(["probe_id", "baseline", "setup"], sort=False):
        first = rows.iloc[0]
        setup = f", {first['setup']}" if first["setup"] else ""
        title = f"{first['corpus']}, {first['train_size']:,} train items, {metric_label(first['metric'])}{setup}"
        table = Table(title=Text(title), title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        for name, justify in _COLUMNS.items():
            table.add_column(name, justify=justify, no_wrap=True)
        for row in rows.to_dict("records"):
            table.add_row(*_cells(row))
        sentences = [Text(f"{finding}.") for finding in findings(rows, TOLERANCE).values()]
        yield Padding(Stack(table, *sentences), (1, 0, 0, 0))
    if len(curves):
        yield Text(_LEGEND, style="dim")


_COLUMNS: dict[str, Any] = {
    "layers": "left", "probe": "right", "95 %": "right", "selectivity": "right", "moved": "right", "CKA": "right",
    "loss": "right", "of freezing": "right",
}  # fmt: skip
_LEGEND = (
    "■ what ran, or is frozen, from the embeddings up. Probe: score on dev of a\n"
    "linear probe of the untouched encoder; selectivity: its points above control\n"
    "labels. Moved: relative change of the layer's weights without freezing; CKA:\n"
    "of its output before and after. Loss: of freezing up to there, in points."
)


def _cells(row: dict[str, Any]) -> tuple[str | Text, ...]:
    label = first_layers(int(row["depth"])).label
    return (
        Text(layer_strip(label, row["n_layers"]) or str(row["depth"])),
        _points(row["probe"]),
        _ends(row["probe_low"], row["probe_high"]),
        _points(row["selectivity"]),
        "" if math.isnan(row["drift"]) else f"{100 * row['drift']:.2f} %",
        "" if math.isnan(row["cka"]) else f"{row['cka']:.3f}",
        _points(row["loss"]),
        _ends(row["loss_low"], row["loss_high"]),
    )


def _points(value: float) -> str:
    return "" if math.isnan(value) else points(value)


def _ends(low: float, high: float) -> str:
    return "" if math.isnan(low) or math.isnan(high) else f"{points(low)} to {points(high)}"
