"""A model cut at a layer, on the hidden states of the part below it, is the whole model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.examples import each
from trials.models.cut import section, start_at
from trials.models.family import MODEL_FAMILIES
from trials.models.load import load_model
from trials.sources.places.model_draft import ModelDraft, find_model

IDS = torch.tensor([[2, 7, 9, 11, 12, 3], [2, 8, 3, 0, 0, 0]])
MASK = (IDS != 0).long()


def fresh(folder: Path, head: Any) -> Any:
    spec = find_model(ModelDraft(folder=str(folder)))
    loaded = load_model(spec, head=head, n_outputs=4, dropout=0.0, init=torch.Generator().manual_seed(0))
    return loaded.model.eval()


@each("head", ["tokens", "text"], quick=1)
@each("layer", [2, 1, 4], quick=1)
@each("family", list(MODEL_FAMILIES))
@torch.no_grad()
def test_the_lower_part_and_the_upper_part_are_the_whole(
    family: str, layer: int, head: str, tiny_models: dict[str, Path]
) -> None:
    model, known = fresh(tiny_models[family], head), MODEL_FAMILIES[family]
    whole = model(input_ids=IDS, attention_mask=MASK).logits
    lower = section(getattr(model, model.base_model_prefix), known, 0, layer)
    hidden = lower(input_ids=IDS, attention_mask=MASK).last_hidden_state
    assert torch.equal(whole, model(input_ids=IDS, attention_mask=MASK).logits)  # the section changed nothing
    start_at(model, known, layer)
    upper = model(inputs_embeds=hidden, attention_mask=MASK).logits
    shown = MASK.bool() if head == "tokens" else slice(None)
    torch.testing.assert_close(upper[shown], whole[shown], atol=1e-6, rtol=1e-5)


@each("family", list(MODEL_FAMILIES))
@torch.no_grad()
def test_a_deeper_state_is_built_from_a_shallower_one(family: str, tiny_models: dict[str, Path]) -> None:
    model, known = fresh(tiny_models[family], "tokens"), MODEL_FAMILIES[family]
    base = getattr(model, model.base_model_prefix)
    at = {stop: section(base, known, 0, stop)(input_ids=IDS, attention_mask=MASK).last_hidden_state for stop in (1, 3)}
    on = section(base, known, 1, 3)(inputs_embeds=at[1], attention_mask=MASK).last_hidden_state
    torch.testing.assert_close(on[MASK.bool()], at[3][MASK.bool()], atol=1e-6, rtol=1e-5)
