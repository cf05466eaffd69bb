"""What to read before a sweep runs: where its results would mislead, and what is peculiar to its models."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.config.quantities import counted
from orchestrator.sweeps.sweep import SweepSpec
from trials.datasets.corpus import Corpus, Sentence, item_words
from trials.draft import Lookup
from trials.escaping.plain_files import MOST_VOCABULARY, read_json
from trials.models.family import CAUSAL, MODEL_FAMILIES, is_causal
from trials.prefix.rule import is_worth_it, prefix_depth, why_not_cut
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.reading import read_corpus, reading_notes, unseen_notes

FEWEST_SEEDS = 3  # below, a spread over seeds says next to nothing
DIFFERING = 0.05  # of dev's labels that two settings give differently; 2 to 10 % in our own sweeps
_NORMAL_95 = 1.96
_SPECIALS = 2  # of an input, around its words


def plan_notes(
    sweep: SweepSpec, trials: Sequence[TrialSpec], ahead: Sequence[TrialSpec], lookup: Lookup
) -> tuple[str, ...]:
    """A sentence for each thing that the user of a sweep should know; none if nothing is left to run.

    Raises:
        DataError, ModelError: A corpus or model cannot be used.
    """
    corpora = dict.fromkeys((spec.task, spec.data) for spec in ahead)
    models = dict.fromkeys((spec.model, TASKS[spec.task].head, spec.data.columns.pair is not None) for spec in ahead)
    return (
        *dict.fromkeys(f"{data.name}: {note}" for task, data in corpora for note in reading_notes(task, data)),
        *(note for task, data in corpora for note in unseen_notes(task, data)),
        *dict.fromkeys(
            f"{model.name}: {note}" for model, head, pairs in models for note in lookup.check(model, head, pairs=pairs)
        ),
        *_causal_notes(ahead),
        *_cut_notes(ahead),
        *_case_notes(ahead),
        *_length_notes(ahead),
        *(_design_notes(sweep, trials) if ahead else ()),
        *(note for task, data in corpora for note in _dev_notes(sweep, task, data)),
    )


def _causal_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    for model in dict.fromkeys(spec.model for spec in specs):
        if is_causal(model):
            yield f"{model.name}: {CAUSAL}"


def _cut_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    """Whether the frozen layers of unregistered families are computed once or at every step."""
    cuts: dict[tuple[str, str, str | None], list[int]] = {}
    unregistered = (spec for spec in specs if spec.model.family not in MODEL_FAMILIES and is_worth_it(spec))
    for spec in sorted(unregistered, key=prefix_depth):
        if depth := prefix_depth(spec):
            depths = cuts.setdefault((spec.model.name, spec.model.family, why_not_cut(spec, depth)), [])
            depths += [depth] if depth not in depths else []
    for (model, family, reason), depths in cuts.items():
        at = f"{family!r} cut at layer {', '.join(map(str, depths))}"
        if reason is None:
            yield f"{model}: frozen layers are computed once, as {at} computes what the whole model does."
        else:
            yield f"{model}: frozen layers are computed at every step. For {at}, {reason}."


# --- Letters and lengths


def _case_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    """Whether `lowercase` fits the model's vocabulary. A tokenizer that changes the case itself needs no note."""
    for model, lowercase in dict.fromkeys((spec.model, spec.lowercase) for spec in specs):
        capitals = _knows_capitals(model)
        if capitals and lowercase:
            yield f"{model.name}: tells capitals from small letters, but `lowercase: true` removes them. Leave it out."
        if capitals is False and not lowercase:
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
    words = (
        word if isinstance(word, str) else word[0] for word in vocabulary
    )  # a Unigram lists words with their scores
    return any(re.search("[A-Z]", word) for word in words if word not in special)


def _length_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    """How many words of dev `max_length` cuts off at least: a word is one subword or more."""
    kinds = dict.fromkeys((spec.task, spec.data, spec.max_length) for spec in specs)
    for task, data, max_length in kinds:
        lengths = [len(item_words(item)) for item in read_corpus(task, data).dev]
        cut, total = sum(max(0, n + _SPECIALS - max_length) for n in lengths), sum(lengths)
        if cut:
            what = "count as errors" if TASKS[task].head == "tokens" else "are not read"
            yield (
                f"{data.name}: `max_length: {max_length}` cuts off at least {cut:,} of {total:,} words of dev, which "
                f"{what}."
            )


# --- The design


def _design_notes(sweep: SweepSpec, specs: Sequence[TrialSpec]) -> Iterator[str]:
    freezes = any(not spec.freeze.is_baseline for spec in specs)
    if not freezes or sweep.search.is_adaptive:
        return
    n_seeds = len(set(sweep.seeds))
    if n_seeds < FEWEST_SEEDS:
        yield f"{counted(n_seeds, 'seed')}: no loss gets an interval worth its name below {FEWEST_SEEDS}."
    if not any(spec.freeze.is_baseline for spec in specs):
        yield "no setting trains everything, so nothing can be compared: add `none` to `freeze`."


def _dev_notes(sweep: SweepSpec, task: str, data: DataSpec) -> Iterator[str]:
    """Whether dev can resolve the tolerance of a goal."""
    if sweep.goal is None:
        return
    n, tolerance = _n_labels(task, read_corpus(task, data)), sweep.goal.plan.tolerance
    finest = 100 * _NORMAL_95 * math.sqrt(DIFFERING / n) if n else math.inf
    if finest > tolerance:
        yield (
            f"{data.name}: dev has {n:,} labels. Where two settings label {DIFFERING:.0%} of them differently, losses "
            f"below about {finest:.1f} points may be chance, however many seeds; the tolerance is "
            f"{tolerance:g}. Use a larger dev split."
        )


def _n_labels(task: str, corpus: Corpus) -> int:
    """Labels of dev that the score rests on: texts, words, or the words of entities."""
    labels = [tag for item in corpus.dev for tag in (item.tags if isinstance(item, Sentence) else (item.label,))]
    return sum(label != "O" for label in labels) if task == "ner" else len(labels)
