"""Every architecture that transformers knows, small and with random weights, planned and tried as a user would."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoModel

from tests.trials.conftest import VOCABULARY, save_tiny_tokenizer
from trials.draft import Lookup, TrialDraft
from trials.errors import PermafrostError
from trials.model_checks.rehearsal import MOST_PARAMETERS, small_config
from trials.models.unregistered import HEADS
from trials.run import run_trial

# What every real configuration says, but the library's default does not.
_SAID: dict[str, dict[str, int]] = {"deepseek_v2": {"num_experts_per_tok": 2}, "nemotron": {"num_key_value_heads": 48}}
ARCHITECTURES: list[str] = sorted(CONFIG_MAPPING)


class Tried(NamedTuple):
    """What came of an architecture and a task.

    Attributes:
        word: `works`, `refused` in one line, or `finding`: anything else.
        text: The line, or what went wrong.
    """

    word: Literal["works", "refused", "finding"]
    text: str = ""


def save_small(name: str, folder: Path) -> Path:
    """A small model of an architecture; one that cannot be built small has a configuration and weights of nothing."""
    save_tiny_tokenizer(folder)
    has_head = any(CONFIG_MAPPING[name] in heads for heads in HEADS)  # the others are refused by their configuration
    for narrow in (True, False) if has_head else ():
        try:
            config = small_config(_default_config(name), narrow=narrow)
            config.vocab_size, config.use_cache = len(VOCABULARY), False
            with torch.device("meta"):
                large = sum(p.numel() for p in AutoModel.from_config(config).parameters()) > MOST_PARAMETERS
            if not large:
                model = AutoModel.from_config(config)
                if narrow:
                    model(input_ids=torch.arange(5, 12)[None])  # whether the widths fit each other
                model.save_pretrained(folder)
                return folder
        except Exception:  # the architecture's own code may raise anything, or want a package that is not here
            continue
    try:
        _default_config(name).save_pretrained(folder)
    except Exception:  # a few have no default
        (folder / "config.json").write_text(json.dumps({"model_type": name}))
    save_file({}, folder / "model.safetensors")
    return folder


def _default_config(name: str) -> Any:
    config = CONFIG_MAPPING[name](**_SAID.get(name, {}))
    entries = config.to_dict()
    if entries.get("head_dim", 0) is None:  # every real model of these says it
        config.head_dim = entries["hidden_size"] // entries["num_attention_heads"]
    return config


def tried(model: Path, task: str, data: dict[str, Any]) -> Tried:
    """Plan a trial of two steps with its first layer frozen and, unless it is refused, run it."""
    draft = {
        "task": task, "data": data, "model": str(model), "max_length": 16, "train_size": 4,
        "freeze": {"strategy": "first_k", "depth": 1, "embeddings": True}, "optim": {"batch_size": 4, "epochs": 2},
    }  # fmt: skip
    try:
        spec = TrialDraft.model_validate(draft).resolve(Lookup())
    except PermafrostError as error:
        text = str(error)
        return Tried("finding" if "\n" in text or len(text) > 600 else "refused", text)
    except Exception as error:
        return Tried("finding", f"plan: {type(error).__name__}: {error}")
    try:
        last = list(run_trial(spec, device=torch.device("cpu")))[-1]
    except Exception as error:
        return Tried("finding", f"trial: {type(error).__name__}: {error}")
    return Tried("works") if last.last else Tried("finding", "no last record")


# --- Every architecture of transformers trains or is refused in one line; none ends in a traceback.


WORK = {
    "bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "deberta", "deberta-v2", "distilbert", "esm",
    "eurobert", "gpt2", "gpt_neox", "layoutlmv3", "lilt", "llama", "luke", "modernbert", "mpnet", "nomic_bert", "qwen2",
    "qwen3", "rembert", "roformer", "squeezebert",
}  # fmt: skip


@pytest.fixture
def data(treebank: Path, texts: Path) -> dict[str, dict[str, Any]]:
    first_items = {"first": {"dev": 4, "test": 4}}
    return {"pos": {"folder": str(treebank)} | first_items, "sst2": {"folder": str(texts)} | first_items}


@pytest.mark.slow
@pytest.mark.timeout(1200)  # some minutes on an idle machine
def test_every_architecture_trains_or_is_refused_in_one_line(data: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    found: dict[tuple[str, str], Tried] = {}
    for name in ARCHITECTURES:
        model = save_small(name, tmp_path / name)
        tasks = ["pos", "sst2"] if name in WORK else ["pos"]
        found |= {(name, task): tried(model, task, data[task]) for task in tasks}
        shutil.rmtree(model)
    assert {key: outcome.text for key, outcome in found.items() if outcome.word == "finding"} == {}
    assert {name for name in WORK if found[name, "pos"].word != "works"} == set()
