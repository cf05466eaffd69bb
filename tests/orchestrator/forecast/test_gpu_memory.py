"""The memory of a trial on a GPU, estimated from shapes: what learns decides, and corpora count that reside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.forecast.gpu_memory import EncoderSizes, gpu_bytes, lengths_of, sizes_of
from tests.orchestrator.forecast.worlds import LENGTHS, spec_of
from tests.small_sweeps import write_bank
from trials.draft import Lookup, TrialDraft
from trials.models.load import load_tokenizer
from trials.tasks.task import read_corpus


def test_lengths_are_those_that_the_models_own_tokenizer_gives(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank", train=20, dev=40, test=20)
    draft = TrialDraft.model_validate({"data": {"folder": str(bank)}, "lowercase": True})
    spec = draft.resolve(Lookup(offline=True))
    tokenizer = load_tokenizer(spec.model, "tokens")
    forms = [[form.lower() for form in getattr(item, "forms")] for item in read_corpus(spec.task, spec.data).dev]  # noqa: B009
    encoded = tokenizer(forms, is_split_into_words=True, truncation=True, max_length=128)["input_ids"]
    assert lengths_of(spec).dev.tolist() == sorted(map(len, encoded))


def test_sizes_of_the_bundled_model_are_its_configurations() -> None:
    sizes = sizes_of(spec_of().model)
    assert (sizes.layers, sizes.width, sizes.inner) == (6, 128, 512)
    assert sizes.total == pytest.approx(2_233_344, rel=0.01)  # but for biases and norms


def test_the_memory_of_a_trial_on_a_gpu_is_estimated_with_its_best_weights_and_its_corpora() -> None:
    base = EncoderSizes(layers=12, width=768, inner=3072, table=23_800_000, table_width=768)  # BERT-base
    trained = base.total - base.layers * 0
    estimated = gpu_bytes(spec_of(0), base, LENGTHS)
    assert 20 * trained < estimated < 20 * trained + 2e9  # weights, gradients, two moments, best weights; one batch
    assert gpu_bytes(spec_of(6), base, LENGTHS) < estimated
    long = replace(LENGTHS, n_test=50_000)
    assert gpu_bytes(spec_of(0), base, long) == pytest.approx(estimated + 16 * 59 * (50_000 - 200))
    assert gpu_bytes(spec_of(0), base, replace(LENGTHS, n_test=10**8)) < estimated  # too large to reside
