"""The work of a trial: more of anything never counts as less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.forecast.work import (
    EncoderSizes,
    PrefixLedger,
    gpu_bytes,
    lengths_of,
    lies_end_to_end,
    memory_of,
    nothing_cached,
    padded_length,
    shape_key,
    sizes_of,
    work_of,
)
from tests.examples import each
from tests.orchestrator.forecast.worlds import LENGTHS, SIZES, spec_of
from trials.datasets.corpus import fingerprint
from trials.models.load import load_tokenizer
from trials.prefix.rule import cached_depth
from trials.sources.local_models import STARTER, ModelDraft, find_model
from trials.spec import TrialSpec
from trials.tasks.task import read_corpus

Settings = tuple[int, int, int]
SETTINGS = st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 800))


def terms(settings: Settings) -> np.ndarray:
    depth, epochs, size = settings
    work = work_of(spec_of(depth, optim={"epochs": epochs}, train_size=size), SIZES, LENGTHS, gpu=False)
    return np.array([*work.training, *work.evaluation])


@given(SETTINGS, st.integers(1, 4), st.integers(0, 300))
def test_more_epochs_or_sentences_are_never_less_work(settings: Settings, epochs: int, sentences: int) -> None:
    depth, before, size = settings
    if before == 1 and depth:  # one epoch keeps no frozen states, so all layers are run
        before = 2
    more = (depth, before + epochs, size + sentences)
    assert (terms(more) >= terms((depth, before, size)) - 1e-12).all()


@given(SETTINGS, st.integers(0, 6))
def test_a_layer_more_that_learns_is_never_less_work(settings: Settings, other: int) -> None:
    shallow, deep = sorted((settings[0], other))
    assert (terms((shallow, *settings[1:])) >= terms((deep, *settings[1:])) - 1e-12).all()


@given(st.lists(st.integers(1, 128), min_size=2, max_size=60), st.integers(1, 64))
def test_padding_makes_an_item_longer_than_the_mean_and_no_longer_than_the_longest(
    lengths: list[int], batch: int
) -> None:
    found = np.sort(np.array(lengths))
    random = padded_length(found, batch)
    assert found.mean() - 1e-9 <= random <= found.max() + 1e-9
    assert padded_length(found, batch, window=16) <= found.max()


def test_expected_padding_is_that_of_drawn_batches() -> None:
    rng, lengths = np.random.default_rng(0), np.sort(np.random.default_rng(1).integers(3, 60, 500))
    drawn = rng.choice(lengths, (20_000, 16)).max(axis=1)
    assert padded_length(lengths, 16) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 20_000**0.5)


def test_lengths_are_those_that_the_models_own_tokenizer_gives() -> None:
    spec = spec_of(lowercase=True)
    data = spec.data.model_copy(update={"fingerprint": fingerprint(spec.data.train, spec.data.dev, spec.data.test)})
    spec = spec.model_copy(update={"model": find_model(ModelDraft(folder=STARTER)), "data": data})
    tokenizer = load_tokenizer(spec.model, "tokens")
    forms = [[form.lower() for form in getattr(item, "forms")] for item in read_corpus(spec.task, data).dev]  # noqa: B009
    encoded = tokenizer(forms, is_split_into_words=True, truncation=True, max_length=128)["input_ids"]
    assert lengths_of(spec).dev.tolist() == sorted(map(len, encoded))


def test_sizes_of_the_bundled_model_are_its_configurations() -> None:
    sizes = sizes_of(spec_of().model)
    assert (sizes.layers, sizes.width, sizes.inner) == (6, 128, 512)
    assert sizes.total == pytest.approx(2_233_344, rel=0.01)  # but for biases and norms


def test_shape_is_the_same_for_other_seeds_sizes_epochs_and_rates_and_differs_by_depth() -> None:
    first = shape_key(spec_of(2))
    assert first == shape_key(spec_of(2, seed=5, train_size=50, optim={"lr": 1e-3, "epochs": 7}))
    assert len({first, shape_key(spec_of(3)), shape_key(spec_of(2, optim={"batch_size": 8}))}) == 3


def test_states_of_frozen_layers_are_computed_by_the_first_trial_that_needs_them() -> None:
    ledger, spec = PrefixLedger(nothing_cached), spec_of(4, train_size=800)
    assert cached_depth(spec) == 4
    first, again = ledger.take(spec, SIZES, LENGTHS), ledger.take(spec_of(4, train_size=800, seed=1), SIZES, LENGTHS)
    assert first.items == 1_200
    assert again.items == 0
    assert ledger.take(spec_of(6, train_size=800), SIZES, LENGTHS).forward == pytest.approx(first.forward / 2)


def test_what_learns_decides_the_memory() -> None:
    whole, head = memory_of(spec_of(0), SIZES, LENGTHS, gpu=False), memory_of(spec_of(6), SIZES, LENGTHS, gpu=False)
    assert whole.learning > head.learning == 0
    assert whole.activations > head.activations


@each("spec", [spec_of(0), spec_of(3), spec_of(6)])
def test_batches_of_a_gpu_are_padded_whatever_the_family_and_cost_what_their_padding_does(spec: TrialSpec) -> None:
    assert lies_end_to_end(spec, gpu=False)
    assert not lies_end_to_end(spec, gpu=True)
    cpu, gpu = (work_of(spec, SIZES, LENGTHS, gpu=gpu) for gpu in (False, True))
    assert gpu.touched > 1.3 * cpu.touched
    assert gpu.evaluation == cpu.evaluation
    whole = memory_of(spec, SIZES, LENGTHS, gpu=True)
    assert whole.activations >= memory_of(spec, SIZES, LENGTHS, gpu=False).activations


def test_the_memory_of_a_trial_on_a_gpu_is_estimated_with_its_best_weights_and_its_corpora() -> None:
    base = EncoderSizes(layers=12, width=768, inner=3072, table=23_800_000, table_width=768)  # BERT-base
    trained = base.total - base.layers * 0
    estimated = gpu_bytes(spec_of(0), base, LENGTHS)
    assert 20 * trained < estimated < 20 * trained + 2e9  # weights, gradients, two moments, best weights; one batch
    assert gpu_bytes(spec_of(6), base, LENGTHS) < estimated
    long = replace(LENGTHS, n_test=50_000)
    assert gpu_bytes(spec_of(0), base, long) == pytest.approx(estimated + 16 * 59 * (50_000 - 200))
    assert gpu_bytes(spec_of(0), base, replace(LENGTHS, n_test=10**8)) < estimated  # too large to reside
