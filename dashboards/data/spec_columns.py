"""The specs of a store's trials as columns: a trial's cell (its setting) and the settings by name.

Many trials differ in their seeds alone, and parsing a spec takes longer than anything else in a large store, so each
spec is parsed once for all seeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestrator.analysis.cells import cell_columns, setup_labels
from orchestrator.store.contents import stored_spec
from trials.errors import StoreError
from trials.settings import Seeds
from trials.spec import TrialSpec

_SEEDS = re.compile(r'"((?:init_|order_)?seed)":\s*(\d+|null)')


class SpecReader:
    """Reads the specs of trials, once for all seeds of a cell.

    Attributes:
        by_cell: One spec of each cell that was read, by cell id.
        unreadable: Why the spec of a trial cannot be read, by trial id.
    """

    def __init__(self) -> None:
        self.by_cell: dict[str, TrialSpec] = {}
        self.unreadable: dict[str, str] = {}
        self._cell_of_text: dict[str, str] = {}
        self._columns: dict[str, dict[str, object]] = {}

    def read(self, trial_id: str, text: str) -> tuple[str, int] | None:
        """Cell id and key of the seeds of a trial, from its spec as JSON; None if that cannot be read."""
        values = {name: None if value == "null" else int(value) for name, value in _SEEDS.findall(text)}
        seed = values.get("seed")
        seeds = None if seed is None else Seeds.of(seed, values.get("init_seed"), values.get("order_seed"))
        stripped = _SEEDS.sub("", text)
        if seeds is not None and stripped in self._cell_of_text:
            return self._cell_of_text[stripped], seeds.key
        try:
            spec = stored_spec(text, trial_id)
        except StoreError as error:
            self.unreadable[trial_id] = str(error)
            return None
        cell = spec.cell_id
        self.by_cell.setdefault(cell, spec)
        if seeds == spec.seeds:  # else one was another field of that name
            self._cell_of_text[stripped] = cell
        return cell, spec.seeds.key

    def columns(self, cells: Iterable[str]) -> list[dict[str, object]]:
        """The columns that describe each cell in a frame of trials."""
        specs = {cell: self.by_cell[cell] for cell in cells}
        setups = setup_labels(specs)
        for cell, spec in specs.items():
            if cell not in self._columns:
                self._columns[cell] = cell_columns(spec)
        return [self._columns[cell] | {"setup": setups[cell]} for cell in specs]
