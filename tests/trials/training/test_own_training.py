"""The lines of "the answer in your own training code" train as our trials without dropout in frozen layers do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import DataCollatorForTokenClassification, TrainingArguments

from tests.trials.conftest import TrialMaker
from tests.trials.training.test_trainer_parity import RecordingTrainer
from trials.cache.encoding import encode_for
from trials.models.load import LoadedModel, load_model, load_tokenizer
from trials.spec import TrialSpec
from trials.training.batching import shuffled_batches
from trials.training.freeze_course import freeze_parts, frozen_modules, train_mode
from trials.training.loop import Training, train_steps

PAGE = Path(__file__).parents[3] / "docs/pages/howto/own-training.md"
STEPS, BATCH, DEPTH = 12, 4, 2
FREEZE = {"strategy": "first_k", "depth": DEPTH, "embeddings": True}
Freeze = Callable[[nn.Module, int], None]


@pytest.fixture(scope="module")
def page_freeze() -> Freeze:
    """The function of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    space: dict[str, Any] = {}
    exec(code, space)
    found: Freeze = space["freeze"]
    return found


def gradients_only(model: nn.Module, depth: int) -> None:
    """What most scripts do: gradients off, dropout on."""
    encoder: Any = model.base_model
    layers = encoder.transformer.layer if hasattr(encoder, "transformer") else encoder.encoder.layer
    for part in (encoder.embeddings, *layers[:depth]):
        part.requires_grad_(False)


def with_dropout_where_frozen(spec: TrialSpec) -> LoadedModel:
    """A model whose trained layers have no dropout, so that no draw of theirs can differ."""
    n_labels, init = len(encode_for(spec).labels), torch.Generator().manual_seed(3)
    loaded = load_model(spec.model, head="tokens", n_outputs=n_labels, dropout=0.0, init=init)
    for part in frozen_modules(loaded.parts, spec.freeze):
        for module in part.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.5
    return loaded


def our_losses(spec: TrialSpec, order: np.ndarray) -> tuple[float, ...]:
    loaded = with_dropout_where_frozen(spec)
    freeze_parts(loaded.parts, spec.freeze)
    training = Training(
        loaded=loaded, optim=spec.optim, examples=encode_for(spec).train.examples, batches=iter(order), pad_id=0,
        device=torch.device("cpu"), precision=torch.autocast("cpu", enabled=False), n_steps=STEPS,
    )  # fmt: skip
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=False)
    return train_steps(training, STEPS)


def trainer_of(
    spec: TrialSpec, model: nn.Module, order: np.ndarray, folder: Path, batch_size: int = BATCH
) -> RecordingTrainer:
    examples = [encode_for(spec).train.examples[i] for i in order.flatten()]
    rows = [{"input_ids": e.ids.tolist(), "labels": e.labels.tolist()} for e in examples]
    arguments = TrainingArguments(
        output_dir=str(folder), learning_rate=spec.optim.lr, weight_decay=spec.optim.weight_decay, num_train_epochs=1,
        per_device_train_batch_size=batch_size, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        dataloader_pin_memory=False, warmup_steps=0,
    )  # fmt: skip
    collator = DataCollatorForTokenClassification(load_tokenizer(spec.model, "tokens"))
    return RecordingTrainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("family", ["distilbert", "bert"])
def test_trainer_with_the_lines_of_the_page_has_our_losses_and_without_them_others(
    family: str, page_freeze: Freeze, make_trial: TrialMaker, tmp_path: Path
) -> None:
    spec = make_trial(family, freeze=FREEZE, optim={"lr": 1e-2, "batch_size": BATCH, "weight_decay": 0.1})
    batches = shuffled_batches(40, BATCH, np.random.default_rng(5))
    order = np.stack([next(batches) for _ in range(STEPS)])  # (steps, sentences)
    losses = {}
    for freeze in (page_freeze, gradients_only):
        model = with_dropout_where_frozen(spec).model
        freeze(model, DEPTH)
        trainer = trainer_of(spec, model, order, tmp_path)
        trainer.train()
        losses[freeze] = trainer.losses
    assert losses[page_freeze] == pytest.approx(our_losses(spec, order), abs=1e-4)
    assert losses[gradients_only] != pytest.approx(losses[page_freeze], abs=1e-2)
