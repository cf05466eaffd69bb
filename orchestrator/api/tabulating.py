"""The table that a launch ends with, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

from orchestrator.analysis.cells import cell_label, objective_group, varying_settings
from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.notebook import ShownInCell
from orchestrator.session.outcome import earlier_note
from orchestrator.session.tables import cell_tables, cut_off_notes
from orchestrator.store import ResultStore, open_store
from orchestrator.store.evidence import TRIAL_COLUMNS
from orchestrator.store.plans import SweepPlan
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Table(ShownInCell):
    """One row per setting of a sweep; `print` and notebooks show it as `permafrost launch` does.

    Attributes:
        cells: The settings in the sweep's order, with the means over their seeds.
        notes: What to know of the rows: words that were cut off, trials of an earlier version that are not shown.
    """

    cells: tuple[CellSummary, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def from_store(cls, store: ResultStore, plan: SweepPlan, specs: Sequence[TrialSpec] | None = None) -> Table:
        """The settings of a sweep's trials; `specs` are those of the plan if not given. Raises StoreError."""
        rows = {row["trial_id"]: row for row in store.trials(list(TRIAL_COLUMNS)).to_pylist()}
        planned = plan.specs if specs is None else specs
        return cls(tuple(summarise(planned, rows.values())), table_notes(store, plan, planned, rows))

    def to_pandas(self) -> pd.DataFrame:
        """A row per setting: `freeze` and names, seeds, scores (0..1), costs, shares saved (0..1); NaN if not known."""
        import pandas as pd

        varying = varying_settings([cell.spec for cell in self.cells])
        return pd.DataFrame([_row(cell, cell_label(cell.spec, varying)) for cell in self.cells])

    def parts(self) -> Iterator[RenderableType]:
        """What a terminal prints of it."""
        return cell_tables(self.cells)

    def _draw(self, console: Console) -> None:
        for part in self.parts():
            console.print(part)
        for note in self.notes:
            console.print(f"note    {note}", soft_wrap=True)


def table_notes(
    store: ResultStore, plan: SweepPlan, specs: Sequence[TrialSpec], rows: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """What to know of the settings of a sweep; `rows` with `evidence.TRIAL_COLUMNS` of its store by trial id."""
    own = [rows[spec.trial_id] for spec in specs if spec.trial_id in rows]
    hidden = earlier_note(store, plan, rows.keys() - {spec.trial_id for spec in specs})
    return (*cut_off_notes(specs, own), *([hidden] if hidden else []))


def _row(cell: CellSummary, setting: str) -> dict[str, Any]:
    task, metric, corpus, size = objective_group(cell.spec)
    names = {"corpus": corpus, "task": task, "metric": metric, "train_size": size, "freeze": cell.spec.freeze.label}
    names["frozen_dropout"] = cell.spec.has_frozen_dropout
    figures = {name: value for name, value in vars(cell).items() if name not in ("spec", "states")}
    return {**names, "setting": setting, "seeds": cell.n, **figures}


def table(store: str = DEFAULT_STORE, sweep: str | None = None) -> Table:
    """The table of a sweep: one row per setting. The store is only read.

    Args:
        store: A folder, s3://bucket/prefix or gs://bucket/prefix.
        sweep: The name of one of its sweeps; None for the newest that compares settings.

    Raises:
        NothingMatchedError: The store has no such sweep.
        StoreError: The store cannot be read.
    """
    results = open_store(store)
    return Table.from_store(results, results.sweep(sweep, compares=True))
