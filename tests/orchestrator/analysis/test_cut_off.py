"""What `max_length` cut off is said in a sentence."""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.cut_off import cut_off_notes
from tests.builders import make_spec
from trials.spec import TrialSpec


def row(spec: TrialSpec, dev: int | None, train: int | None) -> dict[str, Any]:
    return {"trial_id": spec.trial_id, "dev_cut_off": dev, "train_cut_off": train}


def test_the_words_cut_off_are_named_once_for_all_trials_of_a_corpus() -> None:
    specs = [make_spec(seed=seed) for seed in range(3)]
    rows = [row(spec, 1, train) for spec, train in zip(specs, (4, 12, 0), strict=True)]
    assert cut_off_notes(specs, rows) == [
        "tiny, starter: max_length 128 cuts off 1 word of dev, counted as errors, and up to 12 words of a train subset."
    ]


def test_of_texts_the_shortened_ones_are_counted() -> None:
    spec = make_spec(task="sst2")
    (note,) = cut_off_notes([spec], [row(spec, 2, 0)])
    assert "cuts off the end of 2 texts of dev and of up to 0 texts of a train subset" in note


def test_nothing_cut_off_another_sweep_and_an_older_store_say_nothing() -> None:
    spec, other = make_spec(), make_spec(seed=1)
    assert cut_off_notes([spec], [row(spec, 0, 0), row(other, 3, 3)]) == []
    assert cut_off_notes([spec], [row(spec, None, None)]) == []
