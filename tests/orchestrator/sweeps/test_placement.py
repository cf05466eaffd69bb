"""Sets of layers: anchors first, then an order's, then random ones, never one twice and never the whole encoder."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from orchestrator.sweeps.placement import layer_sets
from orchestrator.sweeps.search_spec import SearchSpec
from tests.builders import expanded, write_sweep, write_treebank
from trials.errors import ConfigError

SWEEP = """
trial:
  data: {{folder: {folder}}}
  train_size: 8
space: {space}
search: {{kind: placement, cells: {cells}}}
seeds: [0, 1]
"""


def sets(n_layers: int, cells: int = 1000, **more: object) -> list[tuple[int, ...]]:
    search = SearchSpec.model_validate({"kind": "placement", "cells": cells, **more})
    return list(islice(layer_sets(n_layers, search), cells))


def test_the_anchors_come_first_then_the_sets_of_the_order() -> None:
    found = sets(4, order=[2, 0, 3, 1])
    assert found[:6] == [(), (0,), (0, 1), (0, 1, 2), (3,), (2, 3)]
    assert (0, 2) in found[:9]  # evenly spread
    assert {(2,), (0, 2), (0, 2, 3)} <= set(found[:12])


def test_in_the_end_every_set_but_the_whole_encoder_occurs_once() -> None:
    found = sets(5)
    assert len(found) == len(set(found)) == 2**5 - 1
    assert tuple(range(5)) not in found


def test_random_sets_depend_on_the_seed_of_the_search_alone() -> None:
    assert sets(8, 60) == sets(8, 60)
    assert sets(8, 60) != sets(8, 60, seed=1)


def test_an_encoder_of_one_layer_has_nothing_to_place() -> None:
    assert sets(1) == [()]


def test_a_sweep_has_as_many_settings_as_it_asks_for(tmp_path: Path) -> None:
    text = SWEEP.format(folder=write_treebank(tmp_path / "bank"), space="{optim.lr: [1.0e-3, 1.0e-4]}", cells=20)
    trials = expanded(write_sweep(tmp_path / "s.yaml", text))
    assert len(trials) == 20 * 2
    assert {trial.optim.lr for trial in trials} == {1e-3, 1e-4}
    frozen = [trial.freeze for trial in trials]
    assert all(one.is_baseline or (one.embeddings and 0 < one.depth < 6) for one in frozen)
    assert sum(one.is_baseline for one in frozen) == 4
    assert {one.label for one in frozen} >= {"first 1+E", "first 5+E", "last 1+E", "last 2+E"}


@pytest.mark.parametrize(
    ("search", "wrong"),
    [
        ({"kind": "random", "cells": 2, "order": [0]}, "goes with no other kind"),
        ({"kind": "placement", "cells": 2, "order": [0, 0]}, "a layer is repeated"),
        ({"kind": "placement"}, "is required"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(search: dict[str, object], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        SearchSpec.model_validate(search)


def test_a_space_that_also_chooses_what_is_frozen_is_refused(tmp_path: Path) -> None:
    from orchestrator.store import open_store
    from orchestrator.sweeps.plan import make_plan
    from orchestrator.sweeps.sweep import load_sweep
    from trials.draft import Lookup

    text = SWEEP.format(folder=write_treebank(tmp_path / "bank"), space="{freeze: [none]}", cells=4)
    sweep, document = load_sweep(write_sweep(tmp_path / "s.yaml", text), [])
    with pytest.raises(ConfigError, match="`search: placement` chooses what is frozen"):
        make_plan(sweep, document, open_store(tmp_path / "store", must_exist=False), Lookup(offline=True))
