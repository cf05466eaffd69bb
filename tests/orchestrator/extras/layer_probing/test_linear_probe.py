"""Probes learn what the states show, are scored as trials are, and are held against labels that mean nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator.extras.layer_probing import linear_probe
from orchestrator.extras.layer_probing.control_labels import control_labels, types_of
from orchestrator.extras.layer_probing.layer_curves import probe_id, states_key
from orchestrator.extras.layer_probing.linear_probe import Probe, fitted, probe_layers
from tests.trials.conftest import TrialMaker
from trials.cache.encoding import encode_for
from trials.metrics.metric import METRICS, PredictedSplit
from trials.spec import TrialSpec

CPU = torch.device("cpu")


def probes(*specs: TrialSpec) -> list[Probe]:
    return list(probe_layers(specs, device=CPU))


def test_a_tag_that_the_first_letter_decides_is_read_from_the_embeddings(make_trial: TrialMaker) -> None:
    """One subword is one letter, and a word is read at its first."""
    found = probes(make_trial(train_size=40))
    assert [probe.depth for probe in found] == [0, 1, 2, 3, 4]
    assert found[0].score > 0.95
    assert found[0].selectivity > 0.2
    for probe in found:
        assert np.mean(probe.contributions) == pytest.approx(probe.score)
        assert np.mean(probe.selectivity_contributions) == pytest.approx(probe.selectivity)
        assert len(probe.contributions) == 12


def test_a_probe_is_the_same_whatever_is_probed_with_it(make_trial: TrialMaker) -> None:
    one, other = make_trial(seed=0), make_trial(seed=1, train_size=12)
    alone = [probe for probe in probes(one, other) if probe.spec is one]
    assert [(p.score, p.control_score) for p in alone] == [(p.score, p.control_score) for p in probes(one)]


def test_texts_are_probed_with_the_vector_that_their_head_reads(make_trial: TrialMaker, texts: Path) -> None:
    spec = make_trial("modernbert", task="sst2", data={"folder": str(texts)})
    assert max(probe.score for probe in probes(spec)) > 0.5


def test_words_that_were_cut_off_are_errors_of_the_probe(make_trial: TrialMaker) -> None:
    spec = make_trial(max_length=8)
    cut = np.concatenate([example.at < 0 for example in encode_for(spec).dev.examples]).mean()
    assert 0 < cut < 1
    assert max(probe.score for probe in probes(spec)) <= 1 - cut


def test_equal_labels_are_predicted_as_such() -> None:
    assert fitted(np.eye(3), np.array([2, 2, 2]), regression=False).predict(np.zeros((1, 3))).tolist() == [2]


def test_a_word_has_one_control_label_wherever_it_stands(make_trial: TrialMaker) -> None:
    by_example = [types_of(example, {2, 3}, of_words=True) for example in encode_for(make_trial()).dev.examples]
    assert not any(3 in types[-1] for types in by_example)  # the separator that follows the last word
    types, gold = [one for example in by_example for one in example], np.arange(4)
    assert () not in types
    half = len(types) // 2
    labels = np.concatenate(control_labels([types[:half], types[half:]], gold, seed=0))
    assert len(set(zip(types, labels.tolist(), strict=True))) == len(set(types))
    assert set(labels.tolist()) <= set(gold.tolist())


def test_what_is_frozen_changes_no_probe_and_a_train_size_only_what_it_learns_from(make_trial: TrialMaker) -> None:
    spec, frozen, fewer = (
        make_trial(),
        make_trial(freeze={"strategy": "first_k", "depth": 2}, seed=3),
        make_trial(train_size=12),
    )
    assert probe_id(frozen) == probe_id(spec) != probe_id(fewer)
    assert states_key(fewer) == states_key(spec) != states_key(make_trial(max_length=16))


def test_the_interval_of_a_score_does_not_widen_with_the_lengths_of_sentences() -> None:
    """Where every word is right, no sentence differs from another, however long it is."""
    split = PredictedSplit(np.zeros(9, np.int64), np.zeros(9, np.int64), np.array([0, 1, 3]), ("a",))
    assert linear_probe._of_each_example(METRICS["accuracy"], split).tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert len(set(METRICS["accuracy"].score_contributions(split).tolist())) == 3
