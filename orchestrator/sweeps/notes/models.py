"""Notes on models: what a rehearsal found, whether their tokenizers fit the corpora, whether they know capitals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.sweeps.notes.note import NOTES, Noted
from trials.model_checks.checked_models import check_fit
from trials.models.family import CAUSAL, is_causal
from trials.outside.plain_files import MOST_VOCABULARY, read_json
from trials.settings import ModelSpec
from trials.tasks import TASKS


@NOTES.register("checks")
def checks(noted: Noted) -> Iterator[str]:
    """What was found when the model was checked, and what is known of its kind. Raises ModelError."""
    of = dict.fromkeys((spec.model, TASKS[spec.task].head, spec.data.columns.pair is not None) for spec in noted.ahead)
    for model, head, pairs in of:
        yield from (f"{model.name}: {note}" for note in noted.lookup.check(model, head, pairs=pairs))
    for model in dict.fromkeys(spec.model for spec in noted.ahead):
        if is_causal(model):
            yield f"{model.name}: {CAUSAL}"


@NOTES.register("fit")
def fit(noted: Noted) -> Iterator[str]:
    """A sentence for each tokenizer that fits a corpus badly. Raises ModelError: one does not fit."""
    kinds = dict.fromkeys((spec.model, spec.task, spec.data.under_seed(0), spec.lowercase) for spec in noted.ahead)
    for model, task, data, lowercase in kinds:
        for note in check_fit(model, task, data, lowercase=lowercase):
            yield f"{model.name}: {note}"


@NOTES.register("capitals")
def capitals(noted: Noted) -> Iterator[str]:
    """Whether `lowercase` fits the model's vocabulary. A tokenizer that changes the case itself needs no note."""
    for model, lowercase in dict.fromkeys((spec.model, spec.lowercase) for spec in noted.ahead):
        knows = _knows_capitals(model)
        if knows and lowercase:
            yield f"{model.name}: tells capitals from small letters, but `lowercase: true` removes them. Leave it out."
        if knows is False and not lowercase:
            yield f"{model.name}: its vocabulary has no capital letters. Set `lowercase: true`."


def _knows_capitals(model: ModelSpec) -> bool | None:
    """Whether the vocabulary has words with capital letters; None if the tokenizer lower-cases, or no file tells."""
    try:
        content = read_json(Path(model.path) / "tokenizer.json", MOST_VOCABULARY)
        vocabulary, normalizer = content["model"]["vocab"], json.dumps(content.get("normalizer"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if '"lowercase": true' in normalizer or '"Lowercase"' in normalizer:
        return None
    special = {token.get("content") for token in content.get("added_tokens", []) if isinstance(token, dict)}
    every = (word if isinstance(word, str) else word[0] for word in vocabulary)  # a Unigram lists them with scores
    words = [word for word in every if word not in special and re.search("[A-Za-z]", word)]
    return any(re.search("[A-Z]", word) for word in words) if words else None
