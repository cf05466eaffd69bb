"""What `max_length` cut off, a sentence for each corpus: scores of shortened sentences look worse than they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.config.quantities import counted
from trials.spec import TrialSpec
from trials.tasks.task import head_of


def cut_off_notes(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each corpus, model and `max_length` of which words of dev or train were cut off.

    Args:
        specs: The trials of a sweep.
        rows: Rows of the store's `trials` table with `cells.TRIAL_COLUMNS`; rows without counts say nothing.
    """
    by_id = {spec.trial_id: spec for spec in specs}
    most: dict[tuple[str, str, str, int], tuple[int, int]] = {}
    for row in rows:
        spec = by_id.get(row["trial_id"])
        if spec is not None and row["dev_cut_off"] is not None:
            key = spec.task, spec.data.name, spec.model.name, spec.max_length
            dev, train = most.get(key, (0, 0))
            most[key] = max(dev, row["dev_cut_off"]), max(train, row["train_cut_off"])
    return [_sentence(*key, *cut) for key, cut in most.items() if any(cut)]


def _sentence(task: str, corpus: str, model: str, max_length: int, dev: int, train: int) -> str:
    noun, end, fate = ("word", "", ", counted as errors,")
    if head_of(task) == "text":
        noun, end, fate = "text", "the end of ", ""
    return (
        f"{corpus}, {model}: max_length {max_length} cuts off {end}{counted(dev, noun)} of dev{fate} and "
        f"{'of ' if end else ''}up to {counted(train, noun)} of a train subset."
    )
