"""The variance of the score by source, over runs with crossed seeds and over plain ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dashboards.data.selection import Selection
from dashboards.views import variance
from dashboards.views.kit.theme import LIGHT
from orchestrator.store.schema import CONTRIBUTIONS, PREDICTIONS
from tests.dashboards.stores import STRATEGIES, Invented, specs, write_store
from tests.dashboards.views.made import made, selected, strictly
from trials.settings import Seeds

PLAIN = specs(train_sizes=(200,), strategies=STRATEGIES[:2])
CROSSED = [
    spec.with_seeds(Seeds(*levels)) for spec in PLAIN[::3] for levels in itertools.product(range(2), range(3), range(2))
]


def of_init(selection: Selection) -> Selection:
    """The selection with a score that only the initialisation changes."""
    init = selection.trials["seed"].map(lambda key: Seeds.from_key(key).init)
    return replace(selection, trials=selection.trials.assign(score=0.5 + 0.01 * init))


def test_crossed_seeds_show_each_source(tmp_path: Path) -> None:
    info = variance.prepare_variance(of_init(made(tmp_path / "s", trials=CROSSED)))
    table = variance.variance_table(info)
    assert table["source"].tolist() == ["subset", "initialisation", "order", "interactions"] * 2
    assert table["standard deviation (points)"].tolist() == pytest.approx([0.0, 1.0, 0.0, 0.0] * 2, abs=1e-9)
    assert set(table["runs"]) == {12}
    assert "is not stored" in info.note
    assert "separates them" not in info.note


def test_sentences_are_a_source_where_their_contributions_are_stored(tmp_path: Path) -> None:
    store, easy = write_store(tmp_path / "s", PLAIN, Invented(noise=0.0)), np.linspace(0, 1, 101)
    rows = [{"trial_id": spec.trial_id, "attempt": 1, "split": "dev", "values": easy} for spec in PLAIN]
    store._parts["contributions"].append_table(pa.Table.from_pylist(rows, schema=CONTRIBUTIONS))
    assert "numbers of words" in variance.prepare_variance(selected(store)).note
    words = [{**row, "sentence": n, "gold": ["A"], "predicted": ["A"]} for row in rows for n in range(101)]
    store._parts["predictions"].append_table(pa.Table.from_pylist(words, schema=PREDICTIONS))
    info = variance.prepare_variance(selected(store))
    sentences = info.table[info.table["source"] == "sentences"]
    assert sentences["variance"].to_numpy() == pytest.approx([easy.var(ddof=1) / 101] * 2)
    figure = strictly(variance.draw_variance(info, LIGHT))
    assert [bar["name"] for bar in figure["data"]] == ["seeds (subset, initialisation and order)", "sentences"]
