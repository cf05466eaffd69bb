"""The same work as a user would write it with `transformers.Trainer`, alone and under Ray Tune.

None of our own code is used: parse, tokenise, load, freeze, train, evaluate after every epoch, all in one function a
trial, as the library's own examples do.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

DEPTHS, SEEDS = (0, 2, 4, 6), (1, 2, 3)
LR, BATCH, EPOCHS, N_TRAIN, N_DEV = 5e-4, 16, 3, 500, 500

Config = dict[str, Any]


def configs(
    treebank: Path, model: Path, depths: tuple[int, ...] = DEPTHS, seeds: tuple[int, ...] = SEEDS
) -> list[Config]:
    """The twelve trials."""
    return [
        {"treebank": str(treebank), "model": str(model), "depth": depth, "seed": seed}
        for depth in depths
        for seed in seeds
    ]


def save_larger_model(tokenizer: Path, folder: Path) -> Path:
    """A BERT of 6 layers, 384 wide, with a vocabulary of 30,522 as BERT's, with random weights: 22 M parameters."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)  # its ids are the first ones
    return folder


def read(path: Path, n: int) -> list[tuple[list[str], list[str]]]:
    """The first `n` sentences of a split: lower-cased words and their UPOS tags."""
    import conllu

    found = []
    with path.open(encoding="utf-8") as file:
        for sentence in conllu.parse_incr(file):
            words = [token for token in sentence if isinstance(token["id"], int)]
            found.append(([token["form"].lower() for token in words], [token["upos"] for token in words]))
            if len(found) == n:
                break
    return found


def train_with_trainer(config: Config) -> dict[str, float]:
    """One trial: dev accuracy after the last epoch, and seconds inside `trainer.train`, its evaluations included."""
    import numpy as np
    import torch
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(config["seed"])
    folder = Path(config["treebank"])
    train, dev = read(next(folder.glob("*train.conllu")), N_TRAIN), read(next(folder.glob("*dev.conllu")), N_DEV)
    tags = sorted({tag for _, sentence in train for tag in sentence})
    tokenizer = AutoTokenizer.from_pretrained(config["model"])

    def encode(sentences: list[tuple[list[str], list[str]]]) -> list[dict[str, list[int]]]:
        rows = []
        for words, labels in sentences:
            encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=128)
            ids, previous = [], None
            for word in encoded.word_ids():
                new = word is not None and word != previous
                ids.append(tags.index(labels[word]) if new and labels[word] in tags else -100)
                previous = word
            rows.append({"input_ids": encoded["input_ids"], "labels": ids})
        return rows

    model = AutoModelForTokenClassification.from_pretrained(config["model"], num_labels=len(tags), dtype=torch.float32)
    if config["depth"]:
        base = model.base_model
        base.embeddings.requires_grad_(False)
        stack = base.transformer if hasattr(base, "transformer") else base.encoder  # DistilBERT's, and BERT's
        for layer in stack.layer[: config["depth"]]:
            layer.requires_grad_(False)

    def accuracy(predicted: Any) -> dict[str, float]:
        labelled = predicted.label_ids != -100
        right = np.argmax(predicted.predictions, axis=-1)[labelled] == predicted.label_ids[labelled]
        return {"accuracy": float(right.mean())}

    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=out, learning_rate=LR, per_device_train_batch_size=BATCH, per_device_eval_batch_size=64,
                num_train_epochs=EPOCHS, weight_decay=0.01, eval_strategy="epoch", save_strategy="no",
                seed=config["seed"], report_to="none", disable_tqdm=True, use_cpu=True, logging_strategy="no",
            ),
            data_collator=DataCollatorForTokenClassification(tokenizer),
            train_dataset=encode(train),
            eval_dataset=encode(dev),
            compute_metrics=accuracy,
        )  # fmt: skip
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        return {"accuracy": trainer.evaluate()["eval_accuracy"], "train_s": seconds}


def plain_loop(work: list[Config], threads: int) -> list[dict[str, float]]:
    """(a) One trial after the other in this process, with all cores for each."""
    import torch

    torch.set_num_threads(threads)
    return [train_with_trainer(config) for config in work]


def ray_tune(work: list[Config], *, reuse_actors: bool) -> list[dict[str, float]]:
    """(b) Ray Tune at its defaults, a core a trial; (c) the same with its actors reused."""
    import ray
    from ray import tune

    def trial(config: Config) -> None:
        tune.report(train_with_trainer(config["trial"]))

    started_here = not ray.is_initialized()
    if started_here:
        ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as out:
            tuner = tune.Tuner(
                tune.with_resources(trial, {"cpu": 1}),
                param_space={"trial": tune.grid_search(work)},
                tune_config=tune.TuneConfig(reuse_actors=reuse_actors),
                run_config=tune.RunConfig(storage_path=out, verbose=0),
            )
            results = tuner.fit()
            return [{key: result.metrics[key] for key in ("accuracy", "train_s")} for result in results]
    finally:
        if started_here:
            ray.shutdown()


os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
