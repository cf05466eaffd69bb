"""One pass gives the states that enter every layer, as the frozen prefix has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.examples import each
from tests.trials.conftest import TrialMaker, save_tiny_model
from trials.encoding.tokenize import encode_for
from trials.models.cut import section
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, family_of, load_model
from trials.probing.layer_states import read_states, reading_of, states_at_every_depth
from trials.seeding import torch_stream
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.training.batching import collate

CPU = torch.device("cpu")


def untouched(spec: TrialSpec) -> LoadedModel:
    return load_model(
        spec.model, head=TASKS[spec.task].head, n_outputs=4, dropout=spec.dropout, init=torch_stream(0, "init")
    )


@each("family", dict.fromkeys(["distilbert", "deberta-v2", "gpt2", *MODEL_FAMILIES]), quick=5)
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


def test_depth_0_is_what_the_embeddings_give(make_trial: TrialMaker) -> None:
    spec = make_trial("bert")
    loaded, examples = untouched(spec), encode_for(spec).dev.examples[:2]
    at = next(states_at_every_depth(spec, loaded, examples, CPU))
    loaded.model.eval()
    with torch.inference_mode():
        for example, states in zip(examples, at.states, strict=True):
            assert torch.equal(states, loaded.parts.embeddings(torch.from_numpy(example.ids)[None])[0])


def test_progress_counts_every_example_at_every_depth(make_trial: TrialMaker) -> None:
    spec, counts = make_trial(), list[int]()
    examples = encode_for(spec).dev.examples
    list(states_at_every_depth(spec, untouched(spec), examples, CPU, counts.append))
    assert sum(counts) == 5 * len(examples)


@pytest.mark.parametrize(("family", "reading"), [("bert", "first"), ("distilbert", "first"), ("gpt2", "last")])
def test_a_text_is_read_where_its_head_reads_it(family: str, reading: str, make_trial: TrialMaker, texts: Path) -> None:
    spec = make_trial(family, task="sst2", data={"folder": str(texts)})
    assert reading_of(untouched(spec), "text") == reading


def test_a_head_that_takes_the_mean_is_found_out(make_trial: TrialMaker, texts: Path, tmp_path: Path) -> None:
    model = save_tiny_model("modernbert", tmp_path, classifier_pooling="mean")
    spec = make_trial(model=str(model), task="sst2", data={"folder": str(texts)})
    assert reading_of(untouched(spec), "text") == "mean"


def test_words_are_read_at_their_first_subword_and_those_cut_off_are_left_out(make_trial: TrialMaker) -> None:
    spec = make_trial(max_length=8)
    examples = encode_for(spec).dev.examples
    states = [torch.arange(len(e.ids))[:, None].float() for e in examples]
    assert any((e.at < 0).any() for e in examples)
    found = read_states(examples, states, "words")[:, 0].tolist()
    assert found == [at for e in examples for at in e.at.tolist() if at >= 0]
