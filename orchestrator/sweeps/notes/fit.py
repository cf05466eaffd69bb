"""Notes on whether the tokenizers of a sweep fit its corpora."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.sweeps.notes.note import NOTES, Noted
from trials.model_checks.corpus_fit import check_fit


@NOTES.register("fit")
def fit(noted: Noted) -> Iterator[str]:
    """A sentence for each that fits badly. Raises ModelError: one does not fit."""
    kinds = dict.fromkeys((spec.model, spec.task, spec.data.under_seed(0), spec.lowercase) for spec in noted.ahead)
    for model, task, data, lowercase in kinds:
        for note in check_fit(model, task, data, lowercase=lowercase):
            yield f"{model.name}: {note}"
