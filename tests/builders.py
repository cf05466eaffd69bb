"""Small valid values for tests: a spec, a record, a treebank on disk. A test changes only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trials.draft import Lookup
from trials.record import EpochRecord
from trials.spec import TrialSpec

Tagged = Sequence[tuple[str, str]]  # a sentence: (form, upos) of every word

SPEC: dict[str, Any] = {
    "data": {
        "name": "tiny",
        "train": ("train.conllu",),
        "dev": ("dev.conllu",),
        "test": ("test.conllu",),
        "format": "conllu",
        "fingerprint": "d" * 64,
    },
    "model": {
        "name": "starter",
        "path": "model",
        "revision": "a" * 64,
        "family": "distilbert",
        "n_layers": 6,
        "n_positions": 128,
    },
    "freeze": {"strategy": "none", "layers": (), "embeddings": False},
    "train_size": 200,
}


def make_spec(**changes: Any) -> TrialSpec:
    """A spec of no real files; a mapping changes single keys of its part: `make_spec(optim={"lr": 1e-3})`."""
    return TrialSpec.model_validate(merged(SPEC, changes))


def first_k(depth: int) -> dict[str, Any]:
    """Freezes the embeddings and so many layers, or nothing where there are none."""
    return {"strategy": "first_k" if depth else "none", "layers": tuple(range(depth)), "embeddings": depth > 0}


def make_record(**changes: Any) -> EpochRecord:
    """The last record of a trial of one epoch."""
    values: dict[str, Any] = {
        "step": 13,
        "epoch": 1.0,
        "step_losses": (2.0, 1.0),
        "train_loss": 1.5,
        "dev_loss": 1.25,
        "score": 0.5,
        "metrics": {"accuracy": 0.5, "macro_f1": 0.25},
        "examples_seen": 200,
        "lr": 1e-3,
        "setup_s": 0.5,
        "prefix_s": 0.125,
        "prefix_paid_s": changes.get("prefix_s", 0.125),
        "train_s": 2.0,
        "eval_s": 0.25,
        "training_flops": 3e12,
        "energy_j": None,
        "peak_memory_bytes": None,
        "worker_memory_bytes": 1 << 30,
        "test_score": 0.75,
        "test_metrics": {"accuracy": 0.75, "macro_f1": 0.5},
        "reports": (),
        "last": True,
        "total_params": 1000,
        "trainable_params": 250,
        "device": "cpu",
        "prefix_layers": 2,
        "threads": 1,
        "worker_slots": 2,
        "gpus": 0.0,
        "accumulation": 1,
        "padding_free": 1,
        "dev_cut_off": 0,
        "train_cut_off": 0,
        "time": 1_750_000_000.0,
    }
    return EpochRecord(**(values | changes))


def first_attempts(specs: Sequence[TrialSpec]) -> dict[str, int]:
    """The numbers of attempts where none was made before."""
    return {spec.trial_id: 1 for spec in specs}


def write_conllu(path: Path, sentences: Sequence[Tagged]) -> Path:
    """Write sentences as CoNLL-U and return the path."""
    blocks = (
        "".join(f"{n}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n" for n, (form, tag) in enumerate(sentence, start=1))
        for sentence in sentences
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(block + "\n" for block in blocks), encoding="utf-8")
    return path


def write_treebank(folder: Path, *, train: int = 8, dev: int = 4, test: int = 4) -> Path:
    """A folder with `train.conllu`, `dev.conllu` and, unless it has no sentences, `test.conllu`."""
    start = 0
    for split, size in (("train", train), ("dev", dev), ("test", test)):
        numbers = range(start, start + size)
        if size:
            write_conllu(folder / f"{split}.conllu", [[("the", "DET"), (f"word{n}", "NOUN")] for n in numbers])
        start += size
    return folder


def write_sweep(path: Path, text: str) -> Path:
    """Write a sweep's YAML, named `tiny` if the text gives no name, and return the path."""
    path.write_text(text if "name:" in text.split() else f"{text.rstrip()}\nname: tiny\n", encoding="utf-8")
    return path


def expanded(path: Path, *settings: str) -> list[TrialSpec]:
    """The trials of a sweep's file."""
    from orchestrator.sweeps.expansion import expand
    from orchestrator.sweeps.load_sweep import load_sweep  # tests of trials alone run where its packages are missing

    return expand(*load_sweep(path, list(settings)), Lookup(offline=True))


def merged(base: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested mappings with single keys changed; what was no mapping becomes one."""
    before = dict(base) if isinstance(base, Mapping) else {}
    inner = {key: merged(before.get(key), value) for key, value in changes.items() if isinstance(value, Mapping)}
    return {**before, **changes, **inner}


def write_tagged_treebank(folder: Path, *, train: int = 24, dev: int = 8, test: int = 8, seed: int = 0) -> Path:
    """Sentences of 2 to 12 words whose tag is a matter of their first letter: something to learn in a second."""
    rng = np.random.default_rng(seed)
    for split, size in (("train", train), ("dev", dev), ("test", test)):
        write_conllu(folder / f"{split}.conllu", [_tagged_sentence(rng) for _ in range(size)])
    return folder


def _tagged_sentence(rng: np.random.Generator) -> Tagged:
    words = ["".join(rng.choice(list("abcdeAB"), rng.integers(1, 4))) for _ in range(rng.integers(2, 13))]
    return [(word, {"a": "NOUN", "b": "VERB", "c": "ADJ"}.get(word[0], "X")) for word in words]


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write rows as a TSV file with a header and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_texts(folder: Path, *, train: int = 40, dev: int = 12, test: int = 12, seed: int = 0) -> Path:
    """Tables with a text, a pair of texts, a class that is a matter of the first letter, and a number that is too."""
    rng = np.random.default_rng(seed)
    for split, size in (("train", train), ("dev", dev), ("test", test)):
        if size:
            write_table(folder / f"{split}.tsv", [_text_row(rng) for _ in range(size)])
    return folder


def _text_row(rng: np.random.Generator) -> dict[str, object]:
    first, second = (" ".join("".join(rng.choice(list("abcde"), 3)) for _ in range(n)) for n in rng.integers(1, 5, 2))
    label = int(first[0] in "ab")
    return {"sentence": first, "sentence1": first, "sentence2": second, "label": label, "score": label + 0.5}


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
