"""Settings of training that suit a model and a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trials.datasets.corpus import Corpus, Text, item_words
from trials.outside.plain_files import read_json
from trials.settings import ModelSpec
from trials.starter import model_path

_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
_BASE_WIDTH = 512  # of BERT-sized encoders and above
_FEW = 5_000  # train items, up to which an epoch is short
_SUBWORDS_A_WORD = 1.5  # English text in a vocabulary of 30,000; other languages have more
_LENGTHS = (128, 256, 512)


def recipe(model: ModelSpec, corpus: Corpus, train_size: int | None = None) -> dict[str, Any]:
    """The key `trial` of a sweep file without task, data and model.

    The starter tags words as its own sweeps do. A text is read off one place, and at that rate no run on 1,500 texts of
    SST-2 learned anything, with or without warm-up (dev accuracy 50.9 after 3 epochs, one seed a rate); at 3e-4 it
    reached 52.5, 60.9 and 66.3 after 1, 2 and 3 epochs, at 5e-4 59.2 after 3. Encoders of BERT's width take 5e-5, the
    largest of the rates that Devlin et al. 2019 (appendix A.3) searched; narrower ones 1e-4, from the rates that Turc
    et al. 2019 searched for compact models (3e-5 to 3e-4). Frozen layers run without dropout, so that their output is
    computed once.

    Args:
        model: The model.
        corpus: The data.
        train_size: Train items to use; None for all.
    """
    epochs = 5 if (train_size or len(corpus.train)) <= _FEW else 3
    optim: dict[str, Any] = {"batch_size": 16, "epochs": epochs}
    settings: dict[str, Any] = {}
    if Path(model.path) == model_path():
        settings["lowercase"] = True
        if isinstance(corpus.train[0], Text):
            optim = {"lr": 3e-4, **optim, "warmup": 0.1}
        else:
            optim = {"lr": 1e-3, "head_lr": 5e-3, **optim, "epochs": 3}
    else:
        optim = {"lr": 5e-5 if _width(model) >= _BASE_WIDTH else 1e-4, **optim, "warmup": 0.1}
    return {**settings, "max_length": _max_length(model, corpus), "frozen_dropout": False, "optim": optim}


def _width(model: ModelSpec) -> int:
    config: Mapping[str, Any] = read_json(Path(model.path) / "config.json")
    return int(next((config[key] for key in _WIDTHS if isinstance(config.get(key), int)), _BASE_WIDTH))


def _max_length(model: ModelSpec, corpus: Corpus) -> int:
    """The shortest of the usual lengths that about 99 % of the train items fit in, within the model's positions."""
    n_words = sorted(len(item_words(item)) for item in corpus.train)
    needed = _SUBWORDS_A_WORD * n_words[int(0.99 * (len(n_words) - 1))] + 2
    fitting = next((length for length in _LENGTHS if length >= needed), _LENGTHS[-1])
    return min(fitting, model.n_positions)
