"""The same trials as a user would train them, by `transformers.Trainer`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.lab.gpu.timing import release
from tests.lab.gpu.workload import encode
from trials.hardware.device import default_device, wait_for
from trials.spec import TrialSpec
from trials.tasks.task import IGNORE, Example
from trials.training.batching import padded_rows
from trials.training.new_training import new_model

EVAL_BATCH = 64

Rows = dict[str, torch.Tensor]


def _rows(examples: list[Example]) -> Rows:
    """(examples, subwords) padded to the longest."""
    return {
        "input_ids": torch.from_numpy(padded_rows([e.ids for e in examples], 0)),
        "attention_mask": torch.from_numpy(padded_rows([np.ones_like(e.ids) for e in examples], 0)),
        "labels": torch.from_numpy(padded_rows([e.labels for e in examples], IGNORE)),
    }


def _collated(features: list[dict[str, Any]]) -> Rows:
    return _rows([feature["example"] for feature in features])


def trainer_times(spec: TrialSpec, folder: Path, *, steps: int, warm_up: int) -> dict[str, float]:
    """Seconds of a step, and of an evaluation on dev, at the Trainer's defaults and the trial's settings."""
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    data, device, times = encode(spec), default_device(), dict[int, float]()

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
        def on_step_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
            if state.global_step in (warm_up, warm_up + steps):
                wait_for(device)
                times[state.global_step] = time.perf_counter()

    def accuracy(predicted: Any) -> dict[str, float]:
        labelled = predicted.label_ids != IGNORE
        right = np.argmax(predicted.predictions, axis=-1)[labelled] == predicted.label_ids[labelled]
        return {"accuracy": float(right.mean())}

    options: dict[str, Any] = {spec.precision: True} if spec.precision != "fp32" else {}
    if device.type == "cpu":
        options["use_cpu"] = True
    trainer = Trainer(
        model=new_model(spec, len(data.labels), device).model,
        args=TrainingArguments(
            output_dir=str(folder), learning_rate=spec.optim.lr, weight_decay=spec.optim.weight_decay,
            per_device_train_batch_size=spec.optim.batch_size, per_device_eval_batch_size=EVAL_BATCH,
            max_steps=warm_up + steps, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
            remove_unused_columns=False, label_names=["labels"], **options,
        ),
        data_collator=_collated,
        train_dataset=[{"example": example} for example in data.train.examples],
        eval_dataset=[{"example": example} for example in data.dev.examples],
        compute_metrics=accuracy,
        callbacks=[Clock()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    began = time.perf_counter()
    trainer.evaluate()
    wait_for(device)
    found = {
        "step_s": (times[warm_up + steps] - times[warm_up]) / steps,
        "evaluation_s": time.perf_counter() - began,
    }
    del trainer
    release()
    return found
