"""A sweep replayed from a store: what its search would find and spend, in seconds instead of hours."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from orchestrator.config.yaml_document import Document
from orchestrator.search.factory import source_of
from orchestrator.search.simulate import Table, simulate
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.plan import make_plan
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup


@dataclass(frozen=True)
class Simulated:
    """What came of it.

    Attributes:
        sweep, store: What was simulated, and from where.
        slots: Trials at the same time.
        trials, planned: That were begun, and of how many.
        epochs, all_epochs: That were run, and if every trial ran to its end.
        seconds: The sweep would have taken, without starting Ray.
        found: What it found, a line each.
    """

    sweep: str
    store: str
    slots: int
    trials: int
    planned: int
    epochs: float
    all_epochs: int
    seconds: float
    found: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person."""
        share = f"{self.epochs / max(self.all_epochs, 1):.0%}"
        time = timedelta(seconds=round(self.seconds))
        return [
            f"simulated {self.sweep} from {self.store}; nothing was trained",
            f"spent   {self.trials} of {self.planned} trials, {self.epochs:g} of {self.all_epochs} epochs ({share})",
            f"        {time} with {self.slots} trials at a time",
            *self.found,
        ]

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def simulated(sweep: SweepSpec, document: Document, store: str, lookup: Lookup, *, slots: int = 1) -> Simulated:
    """Run a sweep on the finished trials of a store. The store is only read.

    Raises:
        ConfigError: the sweep is wrong.
        StoreError: the store cannot be read, or does not have a trial that the sweep asks for.
    """
    table = Table.of(open_store(store))
    with tempfile.TemporaryDirectory(prefix="permafrost-simulated-") as folder:
        empty = ResultStore(Path(folder) / "store")
        plan = make_plan(sweep, document, empty, lookup)
        source = source_of(plan, empty)
        spent = simulate(source, table, slots=slots)
    return Simulated(
        sweep=sweep.name,
        store=store,
        slots=slots,
        trials=spent.trials,
        planned=plan.n_trials,
        epochs=spent.epochs,
        all_epochs=sum(spec.optim.epochs for spec in plan.ahead),
        seconds=spent.seconds,
        found=tuple(source.found()),
    )
