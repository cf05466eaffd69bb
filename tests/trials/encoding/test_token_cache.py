"""A corpus is encoded once a node, and what the second worker maps is what the first one made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trials.conftest import TrialMaker
from trials.cache.encoding import EncodedCorpus, _tokenised, cached_or_encoded, token_key
from trials.cache.node_cache import BYTES_VARIABLE
from trials.spec import TrialSpec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's cache of its own for every test."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def key_of(spec: TrialSpec) -> str:
    return token_key(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


def encoded(spec: TrialSpec) -> EncodedCorpus:
    return _tokenised(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


def never() -> EncodedCorpus:
    raise AssertionError("encoded a second time")


def test_what_is_mapped_is_what_was_encoded(make_trial: TrialMaker) -> None:
    spec = make_trial(max_length=5)  # cuts off words
    made = cached_or_encoded(key_of(spec), lambda: encoded(spec))
    mapped = cached_or_encoded(key_of(spec), never)
    assert (mapped.labels, mapped.names, mapped.pad_id) == (made.labels, made.names, made.pad_id)
    assert sum(example.cut for example in made.dev.examples)
    for name, split in made.splits.items():
        for one, other in zip(split.examples, mapped.splits[name].examples, strict=True):
            assert all(np.array_equal(getattr(one, f), getattr(other, f)) for f in ("ids", "labels", "gold", "at"))
            assert (one.ids.dtype, one.cut) == (other.ids.dtype, other.cut)
        assert np.array_equal(split.starts, mapped.splits[name].starts)


@pytest.mark.parametrize("changes", [{"max_length": 16}, {"lowercase": True}, {"data": {"first": {"dev": 3}}}], ids=str)
def test_what_changes_the_tokens_changes_the_key(changes: dict[str, Any], make_trial: TrialMaker) -> None:
    assert key_of(make_trial(**changes)) != key_of(make_trial())


def test_a_broken_file_is_encoded_anew(make_trial: TrialMaker, cache: Path) -> None:
    spec = make_trial()
    cached_or_encoded(key_of(spec), lambda: encoded(spec))
    next((cache / "tokens").rglob("train.ids.npy")).write_bytes(b"")
    assert cached_or_encoded(key_of(spec), lambda: encoded(spec)).labels == encoded(spec).labels


def test_without_room_the_corpus_is_encoded_and_not_kept(
    make_trial: TrialMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BYTES_VARIABLE, "10")
    spec = make_trial()
    assert cached_or_encoded(key_of(spec), lambda: encoded(spec)).train.examples
    assert not list(cache.rglob("*.npy"))
