"""Searches on a table: all cells of a finished sweep, so that the truth about each is known, and none has to train.

The truth about a cell is its mean over all seeds. A search that looks at one replicate of each cell sees another one of
the five each time, the same for all of its cells, as in a sweep with one seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from orchestrator.analysis.cells import by_cell
from orchestrator.search.optuna_search import AdaptiveCells
from orchestrator.search.schedule import NoEarlyStopping, scheduler_of
from orchestrator.search.steering import FixedCells, Steering, Suggester, front
from orchestrator.search.trial_results import Cell, StoredTrials, TrialProgress, results_of
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.expansion import expand, layers_of, replicates
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.search_points import points_of
from orchestrator.sweeps.search_spec import COSTS, ScheduleSpec, SearchSpec
from orchestrator.sweeps.space import Point
from orchestrator.sweeps.sweep import SweepSpec
from tests.assets.make_search_store import as_recorded
from tests.lab.replay import RecordedTrials, recorded_trials, simulate
from trials.draft import Lookup
from trials.spec import TrialSpec

SWEEP = Path(__file__).parents[3] / "configs" / "sweeps" / "starter_search.yaml"
STORE = Path(__file__).parents[2] / "assets" / "search_store"
POINTS = 100.0
Kind = Literal["random", "sobol", "tpe", "pareto"]


@dataclass
class World:
    """A sweep whose trials are all in a table.

    Attributes:
        sweep: Its space is what searches walk.
        table: The records of its trials.
        cells: All replicates of each cell, in the order of the grid and of the seeds.
        truth: The same by id, complete.
    """

    sweep: SweepSpec
    table: RecordedTrials
    cells: list[list[TrialSpec]]
    truth: dict[str, Cell]
    lookup: Lookup
    _points: dict[str, list[TrialSpec]] = field(default_factory=dict)

    @classmethod
    def of(cls, sweep: Path = SWEEP, store: Path = STORE, settings: Sequence[str] = ()) -> World:
        """From a sweep's file, a finished store of it, and settings to lay over the file."""
        spec, document = load_sweep(sweep, list(settings))
        lookup, table = Lookup(offline=True), dict(recorded_trials(open_store(store)))
        trials = expand(spec, document, lookup)
        table |= {one.trial_id: table[old] for one in trials if (old := as_recorded(one).trial_id) in table}
        cells = list(by_cell(trials).values())
        truth = {specs[0].cell_id: _complete(specs, table) for specs in cells}
        return cls(spec, table, cells, truth, lookup)

    @property
    def known(self) -> StoredTrials:
        """What a search that has not begun finds in its store."""
        return StoredTrials(ResultStore(Path("nothing")))

    @property
    def winner(self) -> Cell:
        """The grid's choice."""
        (found,) = front(list(self.truth.values()), ("score",))
        return found

    @property
    def epochs(self) -> int:
        """Of all trials."""
        return sum(spec.optim.epochs for specs in self.cells for spec in specs)

    def replicates(self, point: Point) -> list[TrialSpec]:
        """The trials of a point; resolving takes a while, so it is done once."""
        key = repr(sorted(point.parameters.items()))
        if key not in self._points:
            self._points[key] = list(self.truth[replicates(self.sweep, point, self.lookup)[0].cell_id].specs)
        return self._points[key]

    def true(self, cell: Cell, objective: str = "score") -> float:
        """A cell's mean over all seeds."""
        found = self.truth[cell.cell_id].mean(objective)
        assert found is not None
        return found

    def regret(self, cell: Cell) -> float:
        """How much less than the grid's choice a cell scores, in points."""
        return POINTS * (self.true(self.winner) - self.true(cell))


def _complete(specs: Sequence[TrialSpec], table: RecordedTrials) -> Cell:
    return Cell(specs, {one.trial_id: TrialProgress(results=results_of(table[one.trial_id])) for one in specs})


def in_order(world: World, kind: Kind, number: int, n: int, objectives: tuple[str, ...] = ("score",)) -> list[Cell]:
    """The first `n` different cells of a search of its own seed, each with one replicate, one after the other.

    Random and evenly spread points that come twice are left out, so that all searches spend the same.
    """
    pick = int(np.random.default_rng([number, 1]).permutation(len(world.sweep.seeds))[0])
    space, layers = world.sweep.space, layers_of(world.sweep, world.lookup)

    def resolve(point: Point) -> list[TrialSpec]:
        return world.replicates(point)[pick : pick + 1]

    suggester: Suggester
    if kind in ("tpe", "pareto"):
        search = SearchSpec(kind=kind, cells=n, seed=number, objectives=objectives)
        suggester = AdaptiveCells(search, space, resolve, layers)
    else:
        points = points_of(SearchSpec(kind=kind, cells=64 * n, seed=number), space, layers)
        suggester = FixedCells(_different(map(resolve, points), n))
    source = Steering(suggester, NoEarlyStopping(), ScheduleSpec(), world.known, objectives)
    simulate(source, world.table)
    assert len(source.cells) == n
    return source.cells


def _different(cells: Iterator[list[TrialSpec]], n: int) -> list[TrialSpec]:
    found: dict[str, TrialSpec] = {}
    for specs in cells:
        found |= {specs[0].cell_id: specs[0]}
        if len(found) == n:
            break
    return list(found.values())


def hypervolume(world: World, cells: Sequence[Cell], objectives: tuple[str, str]) -> float:
    """What share of the volume above the worst values the truths of cells dominate, of what all cells together do."""
    return _dominated(world, cells, objectives) / _dominated(world, list(world.truth.values()), objectives)


def _dominated(world: World, cells: Sequence[Cell], objectives: tuple[str, str]) -> float:
    points = np.array([[_oriented(world, cell, name) for name in objectives] for cell in cells])
    every = np.array([[_oriented(world, cell, name) for name in objectives] for cell in world.truth.values()])
    return area((points - every.min(0)) / (every.max(0) - every.min(0)))


def area(points: np.ndarray) -> float:
    """Of the union of the rectangles between the origin and each of these points (n, 2), by a sweep from the right."""
    found = top = 0.0
    for x, y in sorted(points.tolist(), reverse=True):
        found += x * max(0.0, y - top)
        top = max(top, y)
    return found


def _oriented(world: World, cell: Cell, objective: str) -> float:
    return -world.true(cell, objective) if objective in COSTS else world.true(cell, objective)


def seen_front(cells: Sequence[Cell], objectives: tuple[str, ...]) -> list[Cell]:
    """The cells that a search would name."""
    return front(cells, objectives)


@dataclass(frozen=True)
class Chosen:
    """What came of a search of all replicates.

    Attributes:
        share: Epochs it ran, of those of the grid.
        regret: Of the chosen cell, in points.
        same: Whether that is the grid's.
        as_good: Whether it is, or loses at most a standard error against it: of the mean of losses paired by seed.
    """

    share: float
    regret: float
    same: bool
    as_good: bool


def chosen(world: World, schedule: ScheduleSpec, number: int, *, slots: int = 1, sobol: int | None = None) -> Chosen:
    """Give all cells in a random order, or so many evenly spread ones, to a schedule."""
    rng = np.random.default_rng([number, 2])
    order, seeds = rng.permutation(len(world.cells)), rng.permutation(len(world.sweep.seeds))
    cells = [world.cells[i] for i in order] if sobol is None else _spread(world, sobol, number)
    fixed = FixedCells([specs[i] for specs in cells for i in seeds])
    source = Steering(fixed, scheduler_of(schedule), schedule, world.known)
    spent = simulate(source, world.table, slots=slots)
    (found,) = front(source.cells, ("score",))
    same = found.cell_id == world.winner.cell_id
    return Chosen(spent.epochs / world.epochs, world.regret(found), same, _as_good(world, found))


def _spread(world: World, n: int, number: int) -> list[list[TrialSpec]]:
    points = points_of(
        SearchSpec(kind="sobol", cells=64 * n, seed=number), world.sweep.space, layers_of(world.sweep, world.lookup)
    )
    first = _different((world.replicates(point)[:1] for point in points), n)
    return [list(world.truth[spec.cell_id].specs) for spec in first]


def _as_good(world: World, cell: Cell) -> bool:
    best, own = ([score_of(world, spec) for spec in one.specs] for one in (world.winner, world.truth[cell.cell_id]))
    loss = np.subtract(best, own)
    return bool(loss.mean() <= loss.std(ddof=1) / math.sqrt(len(loss)))


def score_of(world: World, spec: TrialSpec) -> float:
    """What a trial came to."""
    found = results_of(world.table[spec.trial_id])["score"]
    assert found is not None
    return found
