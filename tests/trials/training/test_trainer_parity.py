"""Our loop and `transformers.Trainer` do the same arithmetic: same weights and batches, same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import DataCollatorForTokenClassification, Trainer, TrainingArguments

from orchestrator import api
from orchestrator.analysis.answer import own_training_lines
from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.cache.encoding import encode_for
from trials.draft import freeze_of_label
from trials.errors import ConfigError, ModelError
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, load_model, load_tokenizer
from trials.spec import TrialSpec
from trials.training.batching import shuffled_batches
from trials.training.freeze_course import freeze_parts, frozen_modules, train_mode
from trials.training.loop import Training, train_steps

STEPS, BATCH, DEPTH = 20, 4, 2
FREEZE = {"strategy": "first_k", "depth": DEPTH, "embeddings": True}


class RecordingTrainer(Trainer):  # type: ignore[misc]  # transformers has no types here
    """A Trainer that reads its data in the given order and keeps the loss of every step."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.losses: list[float] = []

    def _get_train_sampler(self, train_dataset: Any = None) -> torch.utils.data.Sampler[int]:
        return torch.utils.data.SequentialSampler(train_dataset or self.train_dataset)

    def compute_loss(self, *args: Any, **options: Any) -> Any:
        found = super().compute_loss(*args, **options)
        self.losses.append(float(found))
        return found


def fresh(spec: TrialSpec, *, frozen_dropout: float = 0.0) -> LoadedModel:
    """A model whose trained layers have no dropout, so that no draw of theirs can differ."""
    n_labels, init = len(encode_for(spec).labels), torch.Generator().manual_seed(3)
    loaded = load_model(spec.model, head="tokens", n_outputs=n_labels, dropout=0.0, init=init)
    for part in frozen_modules(loaded.parts, spec.freeze):
        for module in part.modules():
            if isinstance(module, nn.Dropout):
                module.p = frozen_dropout
    return loaded


def our_losses(
    spec: TrialSpec, order: np.ndarray, loaded: LoadedModel, *, frozen_dropout: bool = True
) -> tuple[float, ...]:
    freeze_parts(loaded.parts, spec.freeze)
    training = Training(
        loaded=loaded, optim=spec.optim, examples=encode_for(spec).train.examples, batches=iter(order), pad_id=0,
        device=torch.device("cpu"), precision=torch.autocast("cpu", enabled=False), n_steps=STEPS,
    )  # fmt: skip
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=frozen_dropout)
    return train_steps(training, STEPS)


def trainer_losses(spec: TrialSpec, order: np.ndarray, model: nn.Module, folder: Path) -> list[float]:
    examples = [encode_for(spec).train.examples[i] for i in order.flatten()]
    rows = [{"input_ids": e.ids.tolist(), "labels": e.labels.tolist()} for e in examples]
    arguments = TrainingArguments(
        output_dir=str(folder), learning_rate=spec.optim.lr, weight_decay=spec.optim.weight_decay,
        warmup_steps=round(spec.optim.warmup * STEPS), num_train_epochs=1, per_device_train_batch_size=BATCH,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    collator = DataCollatorForTokenClassification(load_tokenizer(spec.model, "tokens"))
    trainer = RecordingTrainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    trainer.train()
    return trainer.losses


def batches_of() -> np.ndarray:
    """Of 40 sentences, (steps, sentences)."""
    batches = shuffled_batches(40, BATCH, np.random.default_rng(5))
    return np.stack([next(batches) for _ in range(STEPS)])


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@each("family", dict.fromkeys(["distilbert", *MODEL_FAMILIES]), quick=1)
@each("freeze", [FREEZE, "none"], quick=1)
def test_twenty_steps_have_the_losses_of_transformers_trainer(
    family: str, freeze: Any, make_trial: TrialMaker, tmp_path: Path
) -> None:
    optim = {"lr": 1e-2, "batch_size": BATCH, "weight_decay": 0.1, "warmup": 0.2}
    spec = make_trial(family, freeze=freeze, optim=optim)
    order, model = batches_of(), fresh(spec)
    freeze_parts(model.parts, spec.freeze)
    ours = our_losses(spec, order, fresh(spec))
    assert ours == pytest.approx(trainer_losses(spec, order, model.model, tmp_path), abs=1e-4)
    assert ours[-1] < ours[0]


# --- The answer in training code of one's own


def by_api(model: nn.Module, spec: TrialSpec) -> None:
    api.freeze(model, spec.freeze.label)


def by_lines(model: nn.Module, spec: TrialSpec) -> None:
    """What an answer prints for the model at hand."""
    exec(own_training_lines(spec), {"model": model})


def gradients_only(model: nn.Module, spec: TrialSpec) -> None:
    """What most scripts do: gradients off, dropout on."""
    api.freeze(model, spec.freeze.label, frozen_dropout=True)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@each("family", ["bert", "modernbert", "gpt2"], quick=1)
def test_trainer_freezes_as_an_answer_of_each_architecture_did_and_gradients_alone_are_another_training(
    family: str, make_trial: TrialMaker, tmp_path: Path
) -> None:
    optim = {"lr": 1e-2, "batch_size": BATCH, "weight_decay": 0.1}
    spec = make_trial(family, freeze=FREEZE, optim=optim, frozen_dropout=False)
    order, losses = batches_of(), {}
    for freeze in (by_api, by_lines, gradients_only):
        model = fresh(spec, frozen_dropout=0.5).model
        freeze(model, spec)
        losses[freeze] = trainer_losses(spec, order, model, tmp_path)
    ours = our_losses(spec, order, fresh(spec, frozen_dropout=0.5), frozen_dropout=False)
    assert losses[by_api] == pytest.approx(ours, abs=1e-4)
    assert losses[by_lines] == pytest.approx(ours, abs=1e-4)
    layers = fresh(spec).parts.encoder_layers
    if any(isinstance(module, nn.Dropout) for layer in layers for module in layer.modules()):  # Llama has none
        assert losses[gradients_only] != pytest.approx(ours, abs=1e-2)


@pytest.mark.parametrize("label", ["none", "embeddings", "first 1", "last 2+E", "layers 0,2"])
def test_a_label_freezes_the_parts_that_a_trial_freezes(label: str, make_trial: TrialMaker) -> None:
    spec = make_trial("bert")
    model = fresh(spec)
    freeze = freeze_of_label(label, spec.model.n_layers)
    assert freeze is not None
    freeze_parts(model.parts, freeze)
    expected = {name for name, weight in model.model.named_parameters() if not weight.requires_grad}
    model.model.requires_grad_(True)
    api.freeze(model.model, label)
    assert {name for name, weight in model.model.named_parameters() if not weight.requires_grad} == expected


def test_an_unknown_label_and_an_unknown_architecture_are_named(make_trial: TrialMaker) -> None:
    model = fresh(make_trial("bert")).model
    with pytest.raises(ConfigError, match="'first 40' is no setting of this model"):
        api.freeze(model, "first 40")
    model.config.model_type = "brand-new"  # type: ignore[union-attr]
    with pytest.raises(ModelError, match="unknown 'brand-new'"):
        api.freeze(model, "first 1")
