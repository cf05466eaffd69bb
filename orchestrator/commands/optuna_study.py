"""Write a sweep as an Optuna study, for whoever wants to look at it with Optuna's tools.

permafrost study --sweep my.yaml --store results --out study.db
optuna-dashboard sqlite:///study.db
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from orchestrator.config.console import (
    DEFAULT_STORE,
    DebugOption,
    OfflineOption,
    SettingsOption,
    StoreOption,
    reported,
    stdout,
)
from orchestrator.search.cell import Cell
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.samplers import points_of
from orchestrator.sweeps.space import LayersError, Point, again
from orchestrator.sweeps.sweep import SweepSpec, layers_of, load_sweep, replicates
from trials.draft import DraftError, Lookup
from trials.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.search.optuna_search import Told


def study(
    sweep: Annotated[Path, typer.Option(metavar="FILE", help="The sweep, in YAML.")],
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The SQLite file.")] = Path("study.db"),
    settings: SettingsOption = None,
    offline: OfflineOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a sweep's cells as an Optuna study, which optuna-dashboard opens.

    Examples:
        permafrost study --sweep my.yaml --store results -o study.db

    Exit codes: 0 written, 2 a wrong setting, 3 a file is absent or broken.
    """
    with reported(debug=debug):
        declared, _ = load_sweep(sweep, settings or [])
        results = open_store(store)
        if out.exists():
            raise ConfigError(f"{out}: is there already. Give another file with --out, or remove it.")
        from orchestrator.search.optuna_search import write_study  # importing Optuna takes a second

        told = list(cells_told(declared, results, Lookup(offline=offline)))
        n = write_study(out, declared.name, declared.search, told)
        stdout.print(f"wrote {n} of {len(told)} cells to {out}; look with: optuna-dashboard sqlite:///{out}")


def cells_told(sweep: SweepSpec, results: ResultStore, lookup: Lookup) -> Iterator[Told]:
    """Every cell of a sweep, as a sampler hears of it; one whose trials have not all ended is running."""
    from orchestrator.search.optuna_search import distribution_of
    from orchestrator.search.suggest import cell_told

    known, n_layers, told = StoredTrials(results), layers_of(sweep, lookup), set[str]()
    for parameters in _parameters(sweep, results, lookup):
        axes = dict[str, Axis]()
        point = again(sweep.space, parameters, n_layers, axes.__setitem__)
        cell = None if point is None else _cell(sweep, point, lookup, known)
        if cell is not None and cell.cell_id not in told:
            told.add(cell.cell_id)
            distributions = {name: distribution_of(axis) for name, axis in axes.items()}
            yield cell_told(cell, dict(parameters), distributions, sweep.search.objectives)


def _parameters(sweep: SweepSpec, results: ResultStore, lookup: Lookup) -> Iterator[dict[str, int | float]]:
    if sweep.search.is_adaptive:
        yield from (one.parameters for one in results.suggestions(sweep.name))
    else:
        yield from (one.parameters for one in points_of(sweep.search, sweep.space, layers_of(sweep, lookup)))


def _cell(sweep: SweepSpec, point: Point, lookup: Lookup, known: StoredTrials) -> Cell | None:
    try:
        specs = replicates(sweep, point, lookup)
    except (ValidationError, DraftError, LayersError):
        return None
    cell = Cell(specs, {spec.trial_id: known.of(spec.trial_id) for spec in specs})
    cell.over = {trial_id: seen.state for trial_id, seen in cell.seen.items() if seen.state is not None}
    return cell
