"""What to read before a sweep runs: what names mean now, where results would mislead, what its models are like."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.analysis.cells import has_frozen_dropout
from orchestrator.analysis.decision_plan import DIFFERING, labels_for, resolved_points
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from orchestrator.sweeps.sweep import SweepSpec
from trials.datasets.corpus import item_words
from trials.draft import Lookup
from trials.model_checks.corpus_fit import check_fit
from trials.models.family import CAUSAL, MODEL_FAMILIES, is_causal
from trials.outside.plain_files import MOST_VOCABULARY, read_json
from trials.prefix.rule import cached_depth, is_worth_it, prefix_depth, why_not_cut
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import read_corpus, reading_notes, unit_of, unseen_notes

_CONTENT = {"model": "revision", "data": "fingerprint"}  # of a spec: the digest of the files


def pin_notes(sweep: str, trials: Sequence[TrialSpec], store: ResultStore, lookup: Lookup) -> Iterator[str]:
    """A sentence for each name that was looked up; it names what the sweep's last launch used, if that was another.

    Raises:
        StoreError: The store cannot be read.
    """
    if not lookup.resolved:
        return
    earlier: dict[str, dict[str, Any]] = {}  # by source: the first trial of it, and how many there are
    for plan in store.sweeps():
        for _, spec in plan.trials if plan.name == sweep else ():
            for key in _CONTENT:
                if source := spec[key].get("source"):
                    entry = earlier.setdefault(source, {"content": spec[key][_CONTENT[key]], "n": 0})
                    entry["n"] += 1
    now = {used.source: _content(used) for spec in trials for used in (spec.model, spec.data) if used.source}
    for source, phrase in lookup.resolved.items():
        name = source.rpartition("@")[0]
        moved = [old for old in earlier if old.rpartition("@")[0] == name] if source not in earlier else []
        if not moved:
            yield f"{phrase}. Write it with the version to keep this one."
        for old in moved:
            version = old.rpartition("@")[2]
            if earlier[old]["content"] == now.get(source):
                yield f"{phrase}; the last launch had {version}, whose files are the same."
            else:
                yield (
                    f"{phrase}; the last launch had {version}, which makes other settings: its "
                    f"{counted(earlier[old]['n'], 'trial')} will not be mixed with these. Write {old} to resume it."
                )


def _content(used: ModelSpec | DataSpec) -> str:
    return used.revision if isinstance(used, ModelSpec) else used.fingerprint


FEWEST_SEEDS = 3  # below, a spread over seeds says next to nothing
_SPECIALS = 2  # of an input, around its words


def plan_notes(
    sweep: SweepSpec, trials: Sequence[TrialSpec], ahead: Sequence[TrialSpec], lookup: Lookup
) -> tuple[str, ...]:
    """A sentence for each thing that the user of a sweep should know; none if nothing is left to run.

    Raises:
        DataError, ModelError: A corpus or model cannot be used.
    """
    corpora = dict.fromkeys((spec.task, spec.data.under_seed(0)) for spec in ahead)
    models = dict.fromkeys((spec.model, TASKS[spec.task].head, spec.data.columns.pair is not None) for spec in ahead)
    return (
        *dict.fromkeys(f"{data.name}: {note}" for task, data in corpora for note in reading_notes(task, data)),
        *(note for task, data in corpora for note in unseen_notes(task, data)),
        *dict.fromkeys(
            f"{model.name}: {note}" for model, head, pairs in models for note in lookup.check(model, head, pairs=pairs)
        ),
        *dict.fromkeys(_fit_notes(ahead)),
        *_causal_notes(ahead),
        *_cut_notes(ahead),
        *_case_notes(ahead),
        *_length_notes(ahead),
        *_dropout_notes(ahead),
        *(_design_notes(sweep, trials) if ahead else ()),
        *(note for task, data in corpora for note in _dev_notes(sweep, task, data)),
    )


def _fit_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    """Whether the tokenizers fit the corpora. Raises ModelError: one does not."""
    kinds = dict.fromkeys((spec.model, spec.task, spec.data.under_seed(0), spec.lowercase) for spec in specs)
    for model, task, data, lowercase in kinds:
        for note in check_fit(model, task, data, lowercase=lowercase):
            yield f"{model.name}: {note}"


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
    every = (word if isinstance(word, str) else word[0] for word in vocabulary)  # a Unigram lists them with scores
    words = [word for word in every if word not in special and re.search("[A-Za-z]", word)]
    return any(re.search("[A-Z]", word) for word in words) if words else None


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


def _passes(spec: TrialSpec) -> int:
    """The training of a trial as passes of a sentence through one layer, forward or backward; the head is a layer."""
    n_layers, depth = spec.model.n_layers, spec.freeze.depth
    return (3 * (n_layers - depth) + depth - cached_depth(spec) + 1) * spec.optim.epochs * spec.train_size


def _dropout_notes(specs: Sequence[TrialSpec]) -> Iterator[str]:
    """What dropout in frozen layers costs: their states are computed at every step, not once."""
    without = {spec: spec.model_copy(update={"frozen_dropout": False}) for spec in specs if has_frozen_dropout(spec)}
    slowed = {spec: quick for spec, quick in without.items() if cached_depth(quick)}
    if slowed:
        work, least = (sum(map(_passes, some)) for some in (slowed, slowed.values()))
        yield (
            "frozen layers run with dropout, as in transformers.Trainer, so they are computed at every step: "
            f"about {work / least:.1f} times the work of `frozen_dropout: false` in {counted(len(slowed), 'trial')}. "
            "The two score differently."
        )


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
    """Whether dev and the seeds can decide the tolerance of a goal."""
    n_seeds = len(set(sweep.seeds))
    if sweep.goal is not None and (note := dev_note(task, data, sweep.goal.plan.tolerance, n_seeds)) is not None:
        yield note


def dev_note(task: str, data: DataSpec, tolerance: float, n_seeds: int, held_out: float | None = None) -> str | None:
    """What dev and so many seeds cannot decide, if that is the tolerance, in points; what would, and what holding out
    this share of train and dev together would change.
    """
    finest, what = resolved(task, data, n_seeds), unit_of(TASKS[task])
    if finest <= tolerance:
        return None
    if data.folds is not None:
        needed = math.ceil(labels_for(tolerance) * data.folds / (data.folds - 1))
        of = TASKS[task].scored_unit
        return f"{folds_note(task, data)} The tolerance is {tolerance:g}: about {needed:,} {of} in all would do."
    from orchestrator.analysis import prospects  # loads scipy

    corpus = read_corpus(task, data)
    n = len(corpus.dev)
    shown = (
        f"show a freeze that loses nothing to be within about {finest:.2g} points" if finest < 50 else "show nothing"
    )
    needs, takes = prospects.needed(prospects.variances_of(task), tolerance, n, n_seeds), ""
    if needs is not None:
        more = f"{needs.examples:,} {what} with " if needs.examples > n else ""
        takes = f" Within {counted(tolerance, 'point')} takes about {more}{counted(needs.seeds, 'seed')}."
    other = ""
    if held_out is not None:
        m = round(held_out * (len(corpus.train) + n))
        then = prospects.decides_within(prospects.variances_of(task), m, n_seeds)
        other = f" `--held-out {held_out:g}` would make dev {m:,} {what}: within about {then:.2g} points."
    have = f"{n:,} {what} of dev and {counted(n_seeds, 'seed')}"
    return f"{data.name}: {have} {shown}, if losses vary as in FreezeBench.{takes}{other}"


def folds_note(task: str, data: DataSpec) -> str:
    """What the folds of a corpus resolve."""
    corpus = read_corpus(task, data)
    n = TASKS[task].n_scored([*corpus.train, *corpus.dev])
    return (
        f"{data.name}: {data.folds} folds have {n:,} labels. Where two settings label {DIFFERING:.0%} of them "
        f"differently, losses below about {resolved(task, data, 0):.1f} points may be chance, however many seeds: "
        "these share the examples, and only more of them resolve less."
    )


def resolved(task: str, data: DataSpec, n_seeds: int) -> float:
    """The smallest tolerance, in points, that dev and so many seeds can decide (`analysis.prospects`).

    Of folds, the smallest loss that their labels tell from chance, however many seeds there are: K folds of N labels
    vary as a dev split of N (K - 1) / K, the labels that one of them leaves for training, does (`analysis.two_way`:
    s^2 / (K - 1), with s^2 that of N / K labels).
    """
    corpus = read_corpus(task, data)
    if data.folds is not None:
        return resolved_points(TASKS[task].n_scored(corpus.train))
    from orchestrator.analysis.prospects import decides_within, variances_of  # loads scipy

    return decides_within(variances_of(task), len(corpus.dev), n_seeds)
