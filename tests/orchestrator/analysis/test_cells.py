"""Settings: their names, their layer strips, what was cut off."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.cells import cell_specs, setting, varying_settings
from orchestrator.analysis.freeze_names import FROZEN, freeze_name, layer_strip, strip_in_words
from orchestrator.session.tables import cut_off_notes
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.analysis.frames import freeze_of
from trials.draft import freeze_of_label
from trials.freeze.strategies import FREEZE_STRATEGIES, possible_depths
from trials.spec import FreezeSpec, TrialSpec

BASE = [make_spec(seed=seed) for seed in (0, 1, 2)]
FIRST_2 = make_spec(freeze={"strategy": "first_k", "layers": (0, 1)})


def test_settings_that_vary_are_those_the_tables_do_not_show_anyway() -> None:
    assert [len(seeds) for seeds in cell_specs([BASE[0], FIRST_2, *BASE[1:]]).values()] == [3, 1]
    specs = [make_spec(optim={"lr": lr}, train_size=size) for lr, size in ((1e-3, 100), (1e-4, 200))]
    assert varying_settings([*specs, FIRST_2]) == ["optim.lr"]
    assert [setting(spec, "optim.lr") for spec in specs] == [1e-3, 1e-4]
    assert varying_settings([BASE[0], make_spec(model={"name": "other", "path": "b"})]) == ["model.name"]
    assert varying_settings([]) == []


@each(
    "label, strip, words, name",
    [
        ("none", "□ □□□□□□", "none of 6 layers frozen", "none"),
        ("embeddings", "■ □□□□□□", "the embeddings frozen", "embeddings"),
        ("first 2+E", "■ ■■□□□□", "layers 1 to 2 of 6 and the embeddings frozen", "first 2 + embeddings"),
        ("last 1", "□ □□□□□■", "layer 6 of 6 frozen", "last 1"),
        ("alternating", "□ ■□■□■□", "layers 1, 3, 5 of 6 frozen", "alternating"),
        ("all+E", "■ ■■■■■■", "all 6 layers and the embeddings frozen", "all + embeddings"),
        ("layers 0,1,4", "□ ■■□□■□", "layers 1 to 2, 5 of 6 frozen", "layers 1 to 2, 5"),
        ("layers 2+E", "■ □□■□□□", "layer 3 of 6 and the embeddings frozen", "layer 3 + embeddings"),
    ],
)
def test_a_square_is_filled_where_a_part_is_frozen_and_people_count_layers_from_1(
    label: str, strip: str, words: str, name: str
) -> None:
    freeze = freeze_of(label)
    assert (layer_strip(freeze, 6), strip_in_words(freeze, 6)) == (strip, words)
    assert freeze_name(freeze, 0) == name


def test_what_is_no_label_of_a_setting_names_none() -> None:
    labels = ("", "first 9", "somebody's own", "layers a", "layers 7", "layers", "adaptive (gradient norm)")
    assert [label for label in labels if freeze_of_label(label, 6)] == []


@given(st.sampled_from(sorted(FREEZE_STRATEGIES)), st.integers(1, 30), st.booleans(), st.data())
def test_the_label_of_every_strategy_says_which_parts_it_freezes(
    strategy: str, n_layers: int, embeddings: bool, data: st.DataObject
) -> None:
    depth = data.draw(st.sampled_from(possible_depths(strategy, n_layers)))
    layers = FREEZE_STRATEGIES[strategy](n_layers, depth)
    spec = FreezeSpec(strategy=strategy, layers=tuple(sorted(layers)), embeddings=embeddings)
    found = freeze_of_label(spec.label, n_layers)
    assert found
    assert (found.layers, found.embeddings) == (spec.layers, embeddings)
    assert layer_strip(spec, n_layers).count(FROZEN) == len(layers) + embeddings


def row(spec: TrialSpec, dev: int | None, train: int | None) -> dict[str, Any]:
    return {"trial_id": spec.trial_id, "dev_cut_off": dev, "train_cut_off": train}


def test_the_words_cut_off_are_named_once_for_all_trials_of_a_corpus() -> None:
    specs = [make_spec(seed=seed) for seed in range(3)]
    rows = [row(spec, 1, train) for spec, train in zip(specs, (4, 12, 0), strict=True)]
    assert cut_off_notes(specs, rows) == [
        "tiny, starter: max_length 128 cuts off 1 word of dev, counted as errors, and up to 12 words of a train subset."
    ]


def test_of_texts_the_shortened_ones_are_counted_and_nothing_is_said_of_other_sweeps_and_older_stores() -> None:
    text, spec, other = make_spec(task="sst2"), make_spec(), make_spec(seed=1)
    (note,) = cut_off_notes([text], [row(text, 2, 0)])
    assert "cuts off the end of 2 texts of dev and of up to 0 texts of a train subset" in note
    assert cut_off_notes([spec], [row(spec, 0, 0), row(other, 3, 3)]) == []
    assert cut_off_notes([spec], [row(spec, None, None)]) == []
