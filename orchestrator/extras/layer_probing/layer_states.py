"""The states of examples at every depth of an encoder, in one pass that holds one depth at a time.

Depth 0 is the output of the embeddings, depth k what the first k layers make of it: the states that enter layer k, as
the frozen prefix has them (`trials.prefix`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from trials.models.cut import section
from trials.models.family import Head
from trials.models.load import LoadedModel, family_of
from trials.prefix.states import groups_to_run, run_layers
from trials.spec import TrialSpec
from trials.tasks.task import Example

_TRIED = 6  # subwords of the input on which the pooling is tried

Reading = Literal["words", "first", "last", "mean"]
"""Which states the head reads: that of each word's first subword, or of a text its first subword's, its last
subword's, or those of all of its subwords."""


def reading_of(loaded: LoadedModel, head: Head) -> Reading:
    """Which states a model's head reads, found out from the gradient of its logits. Leaves no gradients."""
    if head == "tokens":
        return "words"
    model: Any = loaded.model
    read: list[torch.Tensor] = []

    def keep(module: nn.Module, args: Any, output: Any) -> Any:
        states = (output[0] if isinstance(output, tuple) else output).detach().requires_grad_()
        read.append(states)
        return (states, *output[1:]) if isinstance(output, tuple) else states

    device, was_training = next(model.parameters()).device, model.training
    hook = loaded.parts.encoder_layers[-1].register_forward_hook(keep)
    model.eval()
    try:
        ids = torch.arange(_TRIED, device=device)[None] + model.config.pad_token_id + 1
        logits = model(input_ids=ids % model.config.vocab_size, attention_mask=torch.ones_like(ids)).logits
    finally:
        hook.remove()
        model.train(was_training)
    (gradient,) = torch.autograd.grad(logits.float().pow(2).sum(), read[-1])
    places = gradient[0].abs().sum(dim=-1).nonzero().flatten().tolist()
    return "first" if places == [0] else "last" if places == [_TRIED - 1] else "mean"


@dataclass(frozen=True)
class Depth:
    """The states at one depth.

    Attributes:
        depth: Layers that ran; 0 for the embeddings alone.
        states: (subwords, width) of each example, on the CPU, in fp32.
    """

    depth: int
    states: list[torch.Tensor]


def states_at_every_depth(
    spec: TrialSpec,
    loaded: LoadedModel,
    examples: Sequence[Example],
    device: torch.device,
    done: Callable[[int], None] = lambda n: None,
) -> Iterator[Depth]:
    """Run the encoder layer by layer over examples, in the groups and so with the bits of a frozen prefix."""
    base, family = getattr(loaded.model, str(loaded.model.base_model_prefix)), family_of(spec.model)
    groups = [*groups_to_run(examples, device, loaded.first_position)]
    states: list[torch.Tensor] = []
    for depth in range(len(loaded.parts.encoder_layers) + 1):
        start = depth - 1 if depth > 1 else 0  # what runs beside the first layer needs the embeddings
        layers, new_states = section(base, family, start, depth), dict[int, torch.Tensor]()
        for group in groups:
            chosen = [replace(examples[i], states=states[i]) if start else examples[i] for i in group]
            new_states |= zip(group, run_layers(spec, layers, chosen, device, loaded.first_position), strict=True)
            done(len(group))
        states = [new_states[i] for i in range(len(examples))]
        yield Depth(depth, states)


def read_states(examples: Sequence[Example], states: Sequence[torch.Tensor], reading: Reading) -> np.ndarray:
    """(places, width) what a head reads of each place, in order; a word without a subword is left out."""
    return torch.cat([_read(e, s, reading) for e, s in zip(examples, states, strict=True)]).numpy()


def _read(example: Example, states: torch.Tensor, reading: Reading) -> torch.Tensor:
    if reading == "words":
        return states[torch.from_numpy(example.at[example.at >= 0])]
    if reading == "mean":
        return states.mean(dim=0, keepdim=True)
    return states[:1] if reading == "first" else states[-1:]
