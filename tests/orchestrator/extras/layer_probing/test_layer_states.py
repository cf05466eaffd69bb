"""One pass gives the states that enter every layer, as the frozen prefix has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orchestrator.extras.layer_probing.layer_drift import layer_drift, linear_cka
from orchestrator.extras.layer_probing.layer_states import read_states, reading_of, states_at_every_depth
from tests.examples import each
from tests.trials.conftest import TrialMaker, save_tiny_model
from trials.cache.encoding import encode_for
from trials.errors import ModelError
from trials.models.cut import section
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, family_of, load_model
from trials.run import run_trial
from trials.seeding import torch_stream
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.training.batching import collate

CPU = torch.device("cpu")


def untouched(spec: TrialSpec) -> LoadedModel:
    return load_model(
        spec.model, head=TASKS[spec.task].head, n_outputs=4, dropout=spec.dropout, init=torch_stream(0, "init")
    )


@each("family", dict.fromkeys(["distilbert", "deberta-v2", "gpt2", *MODEL_FAMILIES]), quick=3)
def test_the_states_at_each_depth_are_those_of_the_layers_below_it(family: str, make_trial: TrialMaker) -> None:
    spec = make_trial(family)
    loaded, examples = untouched(spec), encode_for(spec).dev.examples[:3]
    base = getattr(loaded.model, str(loaded.model.base_model_prefix))
    found = list(states_at_every_depth(spec, loaded, examples, CPU))
    assert [at.depth for at in found] == [0, 1, 2, 3, 4]
    with torch.inference_mode():
        for at in found[1:]:
            whole = section(base, family_of(spec.model), 0, at.depth)
            for example, states in zip(examples, at.states, strict=True):
                assert torch.equal(states, whole(**collate([example], 0, CPU).inputs).last_hidden_state[0])


@pytest.mark.parametrize(
    ("family", "reading"), [("bert", "first"), ("distilbert", "first"), ("gpt2", "last"), ("modernbert", "mean")]
)
def test_a_text_is_read_where_its_head_reads_it(
    family: str, reading: str, make_trial: TrialMaker, texts: Path, tmp_path: Path
) -> None:
    pooling: dict[str, Any] = {"classifier_pooling": "mean"} if reading == "mean" else {}
    model = save_tiny_model(family, tmp_path, **pooling)
    spec = make_trial(model=str(model), task="sst2", data={"folder": str(texts)})
    assert reading_of(untouched(spec), "text") == reading


def test_words_are_read_at_their_first_subword_and_those_cut_off_are_left_out(make_trial: TrialMaker) -> None:
    spec = make_trial(max_length=8)
    examples = encode_for(spec).dev.examples
    states = [torch.arange(len(e.ids))[:, None].float() for e in examples]
    assert any((e.at < 0).any() for e in examples)
    found = read_states(examples, states, "words")[:, 0].tolist()
    assert found == [at for e in examples for at in e.at.tolist() if at >= 0]


# --- A frozen layer has not moved, a trained one has.


def trained(spec: TrialSpec) -> bytes:
    kept: list[bytes] = []
    list(run_trial(spec, device=CPU, keep_weights=kept.append))
    return kept[0]


def test_frozen_layers_have_not_moved_and_trained_ones_have(make_trial: TrialMaker) -> None:
    spec = make_trial(freeze={"strategy": "first_k", "depth": 2, "embeddings": True})
    weights = trained(spec)
    found = list(layer_drift(spec, weights, device=CPU))
    assert [d.depth for d in found] == [0, 1, 2, 3, 4]
    assert [d.weight_change for d in found[:3]] == [0.0, 0.0, 0.0]
    assert [d.cka for d in found[:3]] == pytest.approx([1.0, 1.0, 1.0])
    assert all(d.weight_change > 0 and d.cka is not None and d.cka < 1 for d in found[3:])
    with pytest.raises(ModelError, match="are not those that it trains"):
        list(layer_drift(make_trial(freeze={"strategy": "first_k", "depth": 1}), weights, device=CPU))


def test_adapters_count_as_the_weights_that_they_are_merged_into(make_trial: TrialMaker) -> None:
    spec = make_trial("bert", freeze={"strategy": "first_k", "depth": 2, "embeddings": True}, lora={"rank": 2})
    found = layer_drift(spec, trained(spec), device=CPU)
    assert [d.weight_change > 0 for d in found] == [False, False, False, True, True]


def test_cka_ignores_rotation_and_scale_and_sees_other_states() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(50, 4))
    turned, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    assert linear_cka(states, 3 * states @ turned + 1) == pytest.approx(1.0)
    assert (linear_cka(states, rng.normal(size=(50, 4))) or 1.0) < 0.5
    assert linear_cka(states, np.ones((50, 4))) is None
