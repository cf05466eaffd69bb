"""Whether a model cut at a layer, on the states of the layers below, computes what the whole model does.

The tests prove it for the registered families. For any other, a small batch runs through the whole model and through
the cut one, in the process that asks: in the plan, and again in every worker. It always runs on the CPU in fp32, with
the model's own weights, so all of them find the same.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from trials.models.cut import section, start_at
from trials.models.family import Head
from trials.models.load import LoadedModel, family_of, load_model
from trials.spec import ModelSpec

TOLERANCE = 1e-5  # relative to the largest output, which counts as at least 1
MOST_BYTES = 4 * 2**30  # bytes of weights; loading more of them takes longer than it could save
LENGTHS = (9, 6)  # subwords of the two inputs
DROPOUT = 0.1  # so that dropout in front of the first layer is noticed


@lru_cache(maxsize=256)
def difference_when_cut(spec: ModelSpec, head: Head, depth: int) -> str | None:
    """Why a model cannot be cut at a layer: in what it differs from the whole one; None if it can. Raises ModelError.

    Draws nothing from torch's global random state.
    """
    n_bytes = sum(path.stat().st_size for path in Path(spec.path).iterdir() if path.suffix in (".safetensors", ".bin"))
    if n_bytes > MOST_BYTES:
        return f"its weights, {n_bytes / 2**30:.0f} GiB, are too large to try it"
    loaded = load_model(spec, head=head, n_outputs=2, dropout=DROPOUT, init=torch.Generator().manual_seed(0))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            difference = _difference(loaded, spec, depth)
    except Exception as error:  # the architecture's own code may raise anything
        return f"the cut model fails ({type(error).__name__})"
    return None if difference <= TOLERANCE else f"the cut model's output differs by more than {TOLERANCE:.0e}"


def _difference(loaded: LoadedModel, spec: ModelSpec, depth: int) -> float:
    """The largest difference: of logits and last states in training; of states computed at once and layer by layer."""
    model: Any = loaded.model
    family, base = family_of(spec), getattr(model, model.base_model_prefix)
    ids, mask = _batch(model)
    whole = _outputs(loaded, depth, input_ids=ids, attention_mask=mask)
    rows = [{"input_ids": row[:n][None], "attention_mask": mask[:1, :n]} for row, n in zip(ids, LENGTHS, strict=True)]
    at_once = [section(base, family, 0, depth)(**row).last_hidden_state for row in rows]
    by_layer = [section(base, family, 0, 1)(**row).last_hidden_state for row in rows]
    for layer in range(1, depth):
        part = section(base, family, layer, layer + 1)
        by_layer = [part(inputs_embeds=x, attention_mask=mask[:1, : x.shape[1]]).last_hidden_state for x in by_layer]
    assert at_once[0].shape == (1, LENGTHS[0], model.config.hidden_size)
    start_at(model, family, depth)
    states = pad_sequence([x[0] for x in at_once], batch_first=True)
    cut = _outputs(loaded, depth, inputs_embeds=states, attention_mask=mask)
    pairs = [*zip(cut, whole, strict=True), *zip(by_layer, at_once, strict=True)]
    return max(float((in_parts - other).abs().max() / other.abs().max().clamp(min=1.0)) for in_parts, other in pairs)


def _batch(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask (2, subwords); the second sentence is padded."""
    n_ids, pad = model.get_input_embeddings().num_embeddings, model.config.pad_token_id or 0
    ids = torch.randint(n_ids, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(0))
    ids[ids == pad] = (pad + 1) % n_ids
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return ids.where(mask.bool(), pad), mask


def _outputs(loaded: LoadedModel, depth: int, **inputs: torch.Tensor) -> list[torch.Tensor]:
    """Logits and last states of all subwords, with dropout, always the same, in all parts above a depth."""
    model: Any = loaded.model
    model.train()
    for module in (loaded.parts.embeddings, *loaded.parts.encoder_layers[:depth]):
        module.eval()
    last: list[torch.Tensor] = []
    hook = getattr(model, model.base_model_prefix).register_forward_hook(lambda base, given, out: last.append(out[0]))
    torch.manual_seed(0)
    logits = model(**inputs).logits
    hook.remove()
    real = inputs["attention_mask"].bool()
    return [logits[real] if logits.dim() == 3 else logits, last[0][real]]
