"""Every architecture of transformers trains or is refused in one line; none ends in a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from tests.trials.model_checks.architectures import ARCHITECTURES, Tried, save_small, tried

PARTS = 24
WORK = {
    "bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "deberta", "deberta-v2", "distilbert", "esm",
    "eurobert", "gpt2", "gpt_neox", "layoutlmv3", "lilt", "llama", "luke", "modernbert", "mpnet", "nomic_bert", "qwen2",
    "qwen3", "rembert", "roformer", "squeezebert",
}  # fmt: skip
NEED_MORE_THAN_TEXT = ("bros", "canine", "clip", "mamba", "splinter", "visual_bert", "vit")


@pytest.fixture
def data(treebank: Path, texts: Path) -> dict[str, dict[str, Any]]:
    first_items = {"first": {"dev": 4, "test": 4}}
    return {"pos": {"folder": str(treebank)} | first_items, "sst2": {"folder": str(texts)} | first_items}


@pytest.mark.slow
@each("part", range(PARTS))
def test_every_architecture_trains_or_is_refused_in_one_line(
    part: int, data: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    found: dict[tuple[str, str], Tried] = {}
    for name in ARCHITECTURES[part::PARTS]:
        model = save_small(name, tmp_path / name)
        found |= {(name, task): tried(model, task, of_task) for task, of_task in data.items()}
    assert {key: outcome.text for key, outcome in found.items() if outcome.word == "finding"} == {}
    assert {
        name for name, task in found if task == "pos" and name in WORK and found[name, task].word != "works"
    } == set()


@each("name", NEED_MORE_THAN_TEXT, quick=2)
def test_a_model_that_does_not_read_subwords_is_refused_at_the_plan(
    name: str, data: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    outcome = tried(save_small(name, tmp_path / name), "pos", data["pos"])
    assert (outcome.word, outcome.text.endswith("Use another model.")) == ("refused", True), outcome
