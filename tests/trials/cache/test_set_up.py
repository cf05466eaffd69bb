"""A set-up says how far encoding and frozen layers are, to whoever asks; with warm caches it says nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trials.conftest import TrialMaker
from trials.cache import encoding
from trials.cache.set_up_work import SetUpWork, report_to
from trials.run import run_trial


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's cache of its own for every test."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    encoding._encode.cache_clear()


def test_a_trial_reports_every_split_that_it_encodes_and_runs_frozen_layers_over_once(make_trial: TrialMaker) -> None:
    spec = make_trial(freeze={"strategy": "first_k", "depth": 2, "embeddings": True}, frozen_dropout=False)
    told = list[SetUpWork]()
    with report_to(told.append, every_s=0):
        first = next(run_trial(spec, device=torch.device("cpu")))
        n = len(told)
        again = next(run_trial(spec, device=torch.device("cpu")))
    name, sizes = spec.data.name, spec.data.sizes
    assert sizes is not None
    finished = {work.what: (work.done, work.unit) for work in told if work.done == work.total}
    used = (spec.train_size, *sizes[1:])  # frozen layers run over the train subset only
    assert finished == {
        f"{what} {name} {split}": (n_items, "sentences")
        for what, counts in (("encoding", sizes), ("running frozen layers over", used))
        for split, n_items in zip(("train", "dev", "test"), counts, strict=True)
    }
    assert (len(told), again.step_losses) == (n, first.step_losses)


def test_a_corpus_encoded_in_chunks_is_that_encoded_at_once(
    make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_trial()
    whole = encoding.encode_for(spec)
    monkeypatch.setattr(encoding, "CHUNK", 3)
    made = encoding._tokenise(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)
    for name, split in made.splits.items():
        pairs = zip(split.examples, whole.splits[name].examples, strict=True)
        assert all(np.array_equal(one.ids, other.ids) and np.array_equal(one.at, other.at) for one, other in pairs)
