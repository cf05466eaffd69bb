"""What the specs of a store's trials say, as columns: a trial's cell and what people call its settings.

Many trials share all settings but the seed, and reading a spec takes longer than anything else in a large store: each
text is read once for all seeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.analysis.cells import cell_columns, setting, varying_settings
from orchestrator.store.specs import stored_spec
from trials.errors import StoreError
from trials.spec import TrialSpec

_SEED = re.compile(r'"seed":\s*(\d+)')


@dataclass(frozen=True)
class Cell:
    """All settings of a trial but its seed.

    Attributes:
        spec: Of any of its replicates.
    """

    spec: TrialSpec

    @cached_property
    def cell_id(self) -> str:
        """The cell."""
        return self.spec.cell_id

    @cached_property
    def columns(self) -> dict[str, object]:
        """Its columns of a frame of trials, but for `setup`, which depends on the others it stands beside."""
        return cell_columns(self.spec)


class CellReader:
    """The cells of specs, each read once.

    Attributes:
        by_id: All that were read.
        unreadable: Trials whose spec cannot be read, and why.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, Cell] = {}
        self.unreadable: dict[str, str] = {}
        self._by_text: dict[str, Cell] = {}

    def read(self, trial_id: str, text: str) -> tuple[str, int] | None:
        """Cell and seed of a trial, from its spec as JSON; None where that cannot be read."""
        seed = _SEED.search(text)
        stripped = text if seed is None else text[: seed.start()] + text[seed.end() :]
        if seed is not None and stripped in self._by_text:
            return self._by_text[stripped].cell_id, int(seed[1])
        try:
            spec = stored_spec(text, trial_id)
        except StoreError as error:
            self.unreadable[trial_id] = str(error)
            return None
        cell = self.by_id.setdefault(spec.cell_id, Cell(spec))
        if seed is not None and int(seed[1]) == spec.seed:  # else it was another field of that name
            self._by_text[stripped] = cell
        return cell.cell_id, spec.seed


def setup_labels(cells: Iterable[Cell]) -> dict[str, str]:
    """For each cell the settings in which they differ, beside corpus, model, freeze and train size; "" if none."""
    found: Sequence[Cell] = list(cells)
    keys = [key for key in varying_settings(cell.spec for cell in found) if key != "model.name"]
    return {
        cell.cell_id: ", ".join(f"{key.rpartition('.')[2]}={_word(setting(cell.spec, key))}" for key in keys)
        for cell in found
    }


def _word(value: object) -> str:
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
