"""Write a sweep as an Optuna study, for use with Optuna's tools.

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
from orchestrator.config.quantities import counted
from orchestrator.search.cell import Cell
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore, open_store
from orchestrator.store.decisions import suggested
from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.samplers import points_of
from orchestrator.sweeps.space import LayersError, Point, again
from orchestrator.sweeps.sweep import SweepSpec, layers_of, load_sweep, replicates
from trials.draft import DraftError, Lookup
from trials.errors import RefusedError

if TYPE_CHECKING:
    from orchestrator.search.optuna_search import PastCell


def study(
    sweep: Annotated[Path, typer.Option(metavar="FILE", help="The YAML file of the sweep.")],
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The new SQLite file.")] = Path("study.db"),
    settings: SettingsOption = None,
    offline: OfflineOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the settings of a sweep as an Optuna study, which optuna-dashboard opens.

    Examples:
        permafrost study --sweep my.yaml --store results -o study.db

    Exit codes: 0 written, 2 invalid setting, 3 missing or broken file, 4 the file exists.
    """
    with reported(debug=debug):
        declared, _ = load_sweep(sweep, settings or [])
        results = open_store(store)
        if out.exists():
            raise RefusedError(f"{out} already exists. Choose another file with --out, or delete it.")
        from orchestrator.search.optuna_search import write_study  # importing Optuna takes a second

        past = list(past_cells(declared, results, Lookup(offline=offline)))
        n = write_study(out, declared.name, declared.search, past)
        stdout.print(f"wrote {n} of {counted(len(past), 'setting')} to {out}. View: optuna-dashboard sqlite:///{out}")


def past_cells(sweep: SweepSpec, results: ResultStore, lookup: Lookup) -> Iterator[PastCell]:
    """Every cell of a sweep as a sampler sees it; a cell whose trials have not all ended is running."""
    from orchestrator.search.optuna_search import distribution_of
    from orchestrator.search.suggest import past_cell

    stored, n_layers, written = StoredTrials(results), layers_of(sweep, lookup), set[str]()
    adaptive = sweep.search.is_adaptive
    found = suggested(results.decisions(sweep.name)) if adaptive else points_of(sweep.search, sweep.space, n_layers)
    for parameters in (one.parameters for one in found):
        axes = dict[str, Axis]()
        point = again(sweep.space, parameters, n_layers, axes.__setitem__)
        cell = None if point is None else _cell(sweep, point, lookup, stored)
        if cell is not None and cell.cell_id not in written:
            written.add(cell.cell_id)
            distributions = {name: distribution_of(axis) for name, axis in axes.items()}
            yield past_cell(cell, dict(parameters), distributions, sweep.search.objectives)


def _cell(sweep: SweepSpec, point: Point, lookup: Lookup, stored: StoredTrials) -> Cell | None:
    try:
        specs = replicates(sweep, point, lookup)
    except (ValidationError, DraftError, LayersError):
        return None
    cell = Cell(specs, {spec.trial_id: stored.of(spec.trial_id) for spec in specs})
    cell.over = {trial_id: trial.state for trial_id, trial in cell.progress.items() if trial.state is not None}
    return cell
