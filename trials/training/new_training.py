"""What a trial begins with: a pretrained model with a new head, its frozen parts frozen, and the training of it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import torch

from trials.cache.encoding import EncodedCorpus
from trials.hardware.device import autocast
from trials.models.family import StepMode
from trials.models.load import LoadedModel, family_of, load_model
from trials.seeding import GlobalStream, torch_stream
from trials.spec import TrialSpec, steps_an_epoch
from trials.tasks import TASKS
from trials.training.batching import batches_of
from trials.training.freeze_course import freeze_parts
from trials.training.loop import Training


def new_model(spec: TrialSpec, n_labels: int, device: torch.device, *, mode: StepMode | None = None) -> LoadedModel:
    """The pretrained model with a new head, its frozen parts frozen, with adapters if the recipe has them.

    `mode`: how its steps will run; by default in rows on a CPU, else padded.
    """
    head, init = TASKS[spec.task].head, torch_stream(spec.seeds.init, "init")
    mode = mode or ("rows" if device.type == "cpu" else "padded")
    loaded = load_model(spec.model, head=head, n_outputs=n_labels, dropout=spec.dropout, init=init, mode=mode)
    freeze_parts(loaded.parts, spec.always_frozen)  # what gradual unfreezing freezes at first is its schedule's
    if spec.lora is not None:
        from trials.models.adapters import add_adapters  # importing peft takes two seconds

        with GlobalStream(spec.seeds.init, "adapters", device).drawn():
            add_adapters(loaded, family_of(spec.model), spec.lora, spec.freeze)
    loaded.model.to(device)
    return loaded


def new_training(
    spec: TrialSpec,
    loaded: LoadedModel,
    data: EncodedCorpus,
    subset: np.ndarray,
    device: torch.device,
    *,
    mode: StepMode = "padded",
    done: int = 0,
    accumulation: int = 1,
) -> Training:
    """The training on a subset (train_size,) of the train examples; `done` steps precede it in a checkpoint.

    `mode`: the one that the model was loaded for; of a model that takes no rows, batches are padded.
    """
    examples = [data.train.examples[i] for i in subset]
    if loaded.first_position is not None:  # its attention was changed as it was loaded: it takes nothing else
        mode = "rows"
    elif mode == "rows":
        mode = "padded"
    return Training(
        loaded=loaded,
        optim=spec.optim,
        examples=examples,
        batches=islice(batches_of(spec, examples), done, None),  # a resumed trial sees those that it would have seen
        step=done,
        accumulation=accumulation,
        pad_id=data.pad_id,
        device=device,
        precision=autocast(spec.precision, device),
        n_steps=steps_an_epoch(spec) * spec.optim.epochs,
        scaled=spec.precision == "fp16",
        mode=mode,
    )
