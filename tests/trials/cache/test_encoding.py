"""A corpus is encoded once a node; the tags and words that a model cannot get right count as errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.builders import write_conllu
from tests.trials.conftest import TrialMaker
from trials.cache.encoding import EncodedCorpus, _tokenise, cached_or_encoded, token_key
from trials.record import EpochRecord
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.tasks.task import NO_PREDICTION

pytestmark = pytest.mark.usefixtures("cache")


def key_of(spec: TrialSpec) -> str:
    return token_key(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


def encoded(spec: TrialSpec) -> EncodedCorpus:
    return _tokenise(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


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


# --- What a model cannot get right: tags that train lacks, words beyond `max_length`. They count as errors.


def last_record(spec: TrialSpec, **options: Any) -> EpochRecord:
    return list(run_trial(spec, device=torch.device("cpu"), **options))[-1]


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A treebank whose dev and test have tags that train lacks."""
    known = [("a", "NOUN"), ("b", "VERB")]
    write_conllu(tmp_path / "train.conllu", [known] * 24)
    write_conllu(tmp_path / "dev.conllu", [[*known, ("c", "INTJ")], [("d", "INTJ"), ("e", "SYM")]])
    write_conllu(tmp_path / "test.conllu", [[*known, ("a", "INTJ")]])
    return tmp_path


def test_tags_that_train_lacks_have_support_and_no_recall(make_trial: TrialMaker, strange: Path) -> None:
    record = last_record(make_trial(data={"folder": str(strange)}), predictions="all")
    dev = {row.tag: row for row in record.reports[0].tags}
    assert (dev["INTJ"].support, dev["INTJ"].predicted, dev["INTJ"].recall, dev["INTJ"].f1) == (2, 0, 0.0, 0.0)
    assert (dev["SYM"].support, dev["SYM"].correct) == (1, 0)
    assert record.metrics["accuracy"] <= 2 / 5
    assert (record.test_score or 0) <= 2 / 3
    assert set(record.reports[0].predicted) <= {0, 1}


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A treebank with one sentence of 5,000 words in every split."""
    for split in ("train", "dev", "test"):
        write_conllu(tmp_path / f"{split}.conllu", [[("a", "NOUN"), ("b", "VERB")] * 2_500, [(split, "X")]])
    return tmp_path


def test_a_sentence_of_5000_words_trains_and_counts_what_is_cut_off(make_trial: TrialMaker, endless: Path) -> None:
    spec = make_trial("bert", data={"folder": str(endless)}, train_size=1, optim={"epochs": 1})
    record = last_record(spec, predictions="all")
    report = record.reports[0]
    assert len(report.gold) == len(report.predicted) == 5_001
    assert report.predicted.count(NO_PREDICTION) == 5_000 - 30  # two of 32 subwords are specials
    assert report.probability.count(None) == 5_000 - 30
    assert record.metrics["accuracy"] <= 31 / 5_001
    assert sum(row.support for row in report.tags) == 5_001
