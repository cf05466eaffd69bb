"""The settings of a plan as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import by_cell, cell_label, objective_group, varying_settings
from orchestrator.session.tables import ITEMS
from orchestrator.sweeps.plan import Plan
from trials.spec import TrialSpec
from trials.tasks.task import head_of

MOST_SETTINGS = 60  # that are listed


def setting_table(plan: Plan) -> Table:
    """One row per setting of a plan: what it freezes, and how many of its seeds are complete."""
    specs = [*plan.trials, *plan.stand_ins]
    varying, cells = varying_settings(specs), by_cell(specs)
    to_run = {spec.trial_id for spec in plan.ahead}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", overflow="fold")
    table.add_column("seeds complete", justify="right", no_wrap=True)
    names = {cell: _name_of(replicates[0], varying, cells) for cell, replicates in cells.items()}
    for cell, replicates in [*cells.items()][:MOST_SETTINGS]:
        complete = sum(spec.trial_id not in to_run for spec in replicates)
        table.add_row(Text(names[cell]), f"{complete} of {len(replicates)}")
    if (more := len(cells) - MOST_SETTINGS) > 0:
        table.add_row(f"and {more:,} more", "")
    return table


def _name_of(spec: TrialSpec, varying: Sequence[str], cells: Mapping[str, Sequence[TrialSpec]]) -> str:
    """The label of a setting, with its corpus and train size where these vary."""
    name = cell_label(spec, varying)
    groups = {objective_group(replicates[0]) for replicates in cells.values()}
    _, _, corpus, size = objective_group(spec)
    return name if len(groups) == 1 else f"{name}, {corpus}, {size:,} train {ITEMS[head_of(spec.task)]}"
