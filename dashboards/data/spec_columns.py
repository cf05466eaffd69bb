"""The specs of a store's trials as columns: a trial's cell (its setting) and the settings by name.

Many trials differ in their seed alone, and parsing a spec takes longer than anything else in a large store, so each
spec is parsed once for all seeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from orchestrator.analysis.cells import cell_columns, setting, varying_settings
from orchestrator.store.specs import stored_spec
from trials.errors import StoreError
from trials.spec import TrialSpec

_SEED = re.compile(r'"seed":\s*(\d+)')


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
        """Cell id and seed of a trial, from its spec as JSON; None if that cannot be read."""
        seed = _SEED.search(text)
        stripped = text if seed is None else text[: seed.start()] + text[seed.end() :]
        if seed is not None and stripped in self._cell_of_text:
            return self._cell_of_text[stripped], int(seed[1])
        try:
            spec = stored_spec(text, trial_id)
        except StoreError as error:
            self.unreadable[trial_id] = str(error)
            return None
        cell = spec.cell_id
        self.by_cell.setdefault(cell, spec)
        if seed is not None and int(seed[1]) == spec.seed:  # else it was another field of that name
            self._cell_of_text[stripped] = cell
        return cell, spec.seed

    def columns(self, cells: Iterable[str]) -> list[dict[str, object]]:
        """The columns that describe each cell in a frame of trials."""
        specs = {cell: self.by_cell[cell] for cell in cells}
        setups = setup_labels(specs)
        for cell, spec in specs.items():
            if cell not in self._columns:
                self._columns[cell] = cell_columns(spec)
        return [self._columns[cell] | {"setup": setups[cell]} for cell in specs]


def setup_labels(specs: Mapping[str, TrialSpec]) -> dict[str, str]:
    """For each cell the settings that vary, except corpus, model, freeze and train size; "" if none does."""
    keys = [key for key in varying_settings(specs.values()) if key != "model.name"]
    return {
        cell: ", ".join(f"{key.rpartition('.')[2]}={_text(setting(spec, key))}" for key in keys)
        for cell, spec in specs.items()
    }


def _text(value: object) -> str:
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
