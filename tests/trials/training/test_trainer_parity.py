"""Our loop and `transformers.Trainer` do the same arithmetic: same weights and batches, same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DataCollatorForTokenClassification, Trainer, TrainingArguments

from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.encoding.tokenize import encode_for
from trials.models.family import MODEL_FAMILIES
from trials.models.load import LoadedModel, load_model, load_tokenizer
from trials.spec import TrialSpec
from trials.training.batching import shuffled_batches
from trials.training.freezing import freeze_parts, train_mode
from trials.training.loop import Training, train_steps

STEPS, BATCH = 20, 4


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


def fresh(spec: TrialSpec) -> LoadedModel:
    n_labels = len(encode_for(spec).labels)
    loaded = load_model(
        spec.model, head="tokens", n_outputs=n_labels, dropout=0.0, init=torch.Generator().manual_seed(3)
    )
    freeze_parts(loaded.parts, spec.freeze)
    return loaded


def our_losses(spec: TrialSpec, order: np.ndarray) -> tuple[float, ...]:
    loaded = fresh(spec)
    training = Training(
        loaded=loaded, optim=spec.optim, examples=encode_for(spec).train.examples, batches=iter(order), pad_id=0,
        device=torch.device("cpu"), precision=torch.autocast("cpu", enabled=False), n_steps=STEPS,
    )  # fmt: skip
    train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=True)
    return train_steps(training, STEPS)


def trainer_losses(spec: TrialSpec, order: np.ndarray, folder: Path) -> list[float]:
    examples = [encode_for(spec).train.examples[i] for i in order.flatten()]
    rows = [{"input_ids": e.ids.tolist(), "labels": e.labels.tolist()} for e in examples]
    arguments = TrainingArguments(
        output_dir=str(folder), learning_rate=spec.optim.lr, weight_decay=spec.optim.weight_decay,
        warmup_steps=round(spec.optim.warmup * STEPS), num_train_epochs=1, per_device_train_batch_size=BATCH,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = RecordingTrainer(
        model=fresh(spec).model, args=arguments, train_dataset=rows,
        data_collator=DataCollatorForTokenClassification(load_tokenizer(spec.model, "tokens")),
    )  # fmt: skip
    trainer.train()
    return trainer.losses


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@each("family", ["distilbert", *(family for family in MODEL_FAMILIES if family != "distilbert")], quick=1)
@each("freeze", ["none", {"strategy": "first_k", "depth": 2, "embeddings": True}])
@each("warmup", [0.2, 0.0], quick=1)
def test_twenty_steps_have_the_losses_of_transformers_trainer(
    family: str, freeze: Any, warmup: float, make_trial: TrialMaker, tmp_path: Path
) -> None:
    optim = {"lr": 1e-2, "batch_size": BATCH, "weight_decay": 0.1, "warmup": warmup}
    spec = make_trial(family, freeze=freeze, optim=optim)
    batches = shuffled_batches(40, BATCH, np.random.default_rng(5))
    order = np.stack([next(batches) for _ in range(STEPS)])  # (steps, sentences)
    ours = our_losses(spec, order)
    assert ours == pytest.approx(trainer_losses(spec, order, tmp_path), abs=1e-4)
    assert ours[-1] < ours[0]
