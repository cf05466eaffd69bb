"""Differences between a published study and our trials: those that forbid a comparison, and those shown beside it.

Corpora are the same if the sizes of all splits that both sides know agree, and the release if ours has one. Users
choose names freely: a different name is shown, not refused, unless it is that of a known lookalike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.config.quantities import counted
from orchestrator.extras.published.study import UNKNOWN, Protocol, PublishedCorpus, PublishedFreeze
from trials.settings import DataSpec
from trials.spec import TrialSpec

SPLITS = ("train", "dev", "test")
SETTINGS = (  # of a protocol that a spec has too, or its optimiser
    "lr", "head_lr", "layer_decay", "weight_decay", "schedule", "warmup", "batch_size", "epochs", "max_grad_norm",
    "precision", "max_length", "lowercase", "eval_every", "dropout", "frozen_dropout", "batching", "thaw_every", "lora",
)  # fmt: skip


def corpus_refusal(theirs: PublishedCorpus, ours: DataSpec, scored: str = "dev") -> str | None:
    """Why numbers of the `scored` split must not be compared; None if they may."""
    if theirs.sizes == UNKNOWN:
        return f"the study does not say which corpus it used ({theirs.name})"
    if ours.sizes is None:
        return f"our trials do not record the size of {ours.name}, so it cannot be matched with {corpus_name(theirs)}"
    if any(a is not None and b and a != b for a, b in zip(theirs.sizes, ours.sizes, strict=True)):
        return f"ours, {ours.name} ({counts(ours.sizes)}), is not {corpus_name(theirs)} ({counts(theirs.sizes)})"
    release = _release(ours)
    if UNKNOWN not in (release, theirs.version) and release != theirs.version:
        return f"ours is release {release} of {ours.name}, theirs {theirs.version}"
    known_by = f"{ours.name} {ours.source or ''} {' '.join(ours.train)}".lower()
    for name, splits in theirs.lookalikes.items():
        if scored in splits and name in known_by:
            return f"ours, {ours.name}, differs from {theirs.name} in the {scored} split"
    return None


def corpus_name(corpus: PublishedCorpus) -> str:
    """Name and release."""
    return corpus.name if corpus.version == UNKNOWN else f"{corpus.name} {corpus.version}"


def known_as(corpus: PublishedCorpus, name: str) -> bool:
    """Whether our name is plainly the corpus's: `sst2` of `GLUE SST-2`, `UD_English-EWT`."""
    ours, theirs = ("".join(c for c in text.lower() if c.isalnum()) for text in (name, corpus.name))
    return ours in theirs


def counts(sizes: Sequence[int | None]) -> str:
    """`12,544/2,001/2,077`; a dash for a split that is not used."""
    return "/".join(f"{size:,}" if size else "-" for size in sizes)


def may_be(theirs: PublishedFreeze, n_layers: int | str, ours: TrialSpec) -> bool:
    """Whether a trial freezes what a study froze, or may have frozen if it does not say.

    Layers of models of different depth are never the same, except none and all of them.
    """
    freeze, same_height = ours.freeze, n_layers == ours.model.n_layers
    if theirs.embeddings not in (UNKNOWN, freeze.embeddings):
        return False
    if theirs.layers == UNKNOWN:
        assert theirs.depths is not None
        ends = (tuple(range(freeze.depth)), tuple(range(ours.model.n_layers - freeze.depth, ours.model.n_layers)))
        return same_height and theirs.depths[0] <= freeze.depth <= theirs.depths[1] and freeze.layers in ends
    if len(theirs.layers) in (0, n_layers):
        return freeze.depth == (ours.model.n_layers if theirs.layers else 0)
    return same_height and theirs.layers == freeze.layers


def same_model(theirs: str, ours: str) -> bool:
    """Whether two names denote one checkpoint; organisation and revision are ignored."""
    return _checkpoint(theirs) == _checkpoint(ours)


def protocol_differences(
    protocol: Protocol, specs: Sequence[TrialSpec], devices: Sequence[str]
) -> tuple[list[str], list[str]]:
    """(differences, settings that the study does not state) for trials that differ in freeze and seed only."""
    first = specs[0]
    differing: list[str] = []
    if not same_model(protocol.model, first.model.name):
        differing.append(f"model {first.model.name} instead of {protocol.model}")
    silent = []
    for name in SETTINGS:
        theirs, ours = getattr(protocol, name), getattr(first if hasattr(first, name) else first.optim, name)
        if name == "frozen_dropout" and all(spec.freeze.is_baseline for spec in specs):
            continue
        if theirs == UNKNOWN:
            silent.append(name)
        elif theirs != ours:
            differing.append(f"{name} {_word(ours)} instead of {_word(theirs)}")
    n_seeds = len({spec.seeds for spec in specs})
    if protocol.n_seeds == UNKNOWN:
        silent.append("seeds")
    elif protocol.n_seeds != n_seeds:
        differing.append(f"{counted(n_seeds, 'seed')} instead of {protocol.n_seeds}")
    if protocol.hardware == UNKNOWN:
        silent.append("hardware")
    elif differs := other_device(protocol, devices):
        differing.append(differs)
    return differing, silent


def other_device(protocol: Protocol, devices: Sequence[str]) -> str:
    """Where trials ran, if that is not shown to be where the study did; else empty."""
    ran_on = " and ".join(sorted(set(devices))) or "an unknown device"
    if protocol.hardware == UNKNOWN:
        return f"{ran_on}, theirs is not stated"
    same = len(set(devices)) == 1 and _same_device(protocol.hardware, ran_on)
    return "" if same else f"{ran_on} instead of {protocol.hardware}"


def _release(data: DataSpec) -> str:
    """Of a treebank that was fetched at a release: `ud:UD_English-EWT@2.16`."""
    match = re.fullmatch(r"ud:.*@r?(\d+\.\d+)", data.source or "")
    return match[1] if match else UNKNOWN


def _checkpoint(name: str) -> str:
    return name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()


def _same_device(theirs: str, ours: str) -> bool:
    """Whether `Tesla T4`, as a driver calls it, is the `1x NVIDIA T4` of a study: the last word decides."""
    return ours.lower().split()[-1] in theirs.lower().split()


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
