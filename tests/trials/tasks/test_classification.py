"""Classification and regression of texts: what the model is given, what is measured, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import mse_loss
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tests.builders import write_conllu, write_table
from tests.trials.conftest import CPU, TrialMaker, load_tiny
from trials.cache.encoding import EncodedCorpus, encode_for
from trials.corpora.corpus import Text
from trials.draft import DraftError, Lookup, TrialDraft
from trials.tasks import TASKS
from trials.tasks.task import Encoding, Example
from trials.training.batching import collate
from trials.training.loop import mean_loss

NAMES = ("0", "1")
STARTS = np.arange(4)


@pytest.fixture(scope="module")
def tokenizer(tiny_models: dict[str, Path]) -> PreTrainedTokenizerBase:
    """One subword a character."""
    return AutoTokenizer.from_pretrained(tiny_models["bert"])


def encode(
    tokenizer: PreTrainedTokenizerBase, *texts: Text, task: str = "rte", max_length: int = 32, token_types: bool = True
) -> list[Example]:
    return TASKS[task].encode(texts, NAMES, 2, Encoding(tokenizer, max_length, False, token_types))


def test_a_pair_is_told_apart_by_token_types(tokenizer: PreTrainedTokenizerBase) -> None:
    (example,) = encode(tokenizer, Text("ab", "c", "0"))
    assert tokenizer.convert_ids_to_tokens(example.ids) == ["[CLS]", "a", "##b", "[SEP]", "c", "[SEP]"]
    assert example.types is not None
    assert example.types.tolist() == [0, 0, 0, 0, 1, 1]


def test_a_text_beyond_the_longest_input_is_counted(tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [Text("a b c", None, "0"), Text("a b c d", None, "0")]
    found = encode(tokenizer, *texts, task="sst2", max_length=5, token_types=False)
    assert [(len(example.ids), example.cut) for example in found] == [(5, 0), (5, 1)]


def test_of_a_pair_that_is_too_long_the_longer_text_is_cut(tokenizer: PreTrainedTokenizerBase) -> None:
    (example,) = encode(tokenizer, Text("a a a a a a", "b b", "0"), max_length=8)
    tokens = tokenizer.convert_ids_to_tokens(example.ids)
    assert (tokens.count("a"), tokens.count("b")) == (3, 2)


@pytest.mark.parametrize(("family", "has_types"), [("bert", True), ("roberta", False), ("distilbert", False)])
def test_only_families_with_token_types_are_given_any(
    family: str, has_types: bool, make_trial: TrialMaker, texts: Path
) -> None:
    data = encode_for(make_trial(family, task="rte", data={"folder": str(texts)}))
    assert {example.types is not None for example in data.train.examples} == {has_types}
    batch = collate(data.train.examples[:3], 0, CPU)
    assert (batch.types is not None and batch.types.shape == batch.ids.shape) == has_types


def test_f1_is_of_the_positive_class_whatever_it_is_called() -> None:
    gold, predicted = np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0])
    for names in (("0", "1"), ("different", "equivalent")):
        measured = TASKS["mrpc"].measure(gold, predicted, STARTS, names)
        assert measured == {"f1": 2 / 3, "accuracy": 0.75}
    swapped = TASKS["mrpc"].measure(gold, predicted, STARTS, ("equivalent", "not"))
    assert swapped["f1"] == 0.8


@pytest.fixture
def numbers(make_trial: TrialMaker, texts: Path) -> tuple[EncodedCorpus, Any]:
    spec = make_trial("bert", task="stsb", data={"folder": str(texts), "columns": COLUMNS})
    return encode_for(spec), spec


COLUMNS = {"text": "sentence1", "pair": "sentence2", "label": "score"}


def test_a_regression_learns_numbers_by_the_mean_squared_error(numbers: tuple[EncodedCorpus, Any]) -> None:
    data, spec = numbers
    model = load_tiny(spec, head="text", n_outputs=1).model.eval()
    batch = collate(data.train.examples[:5], 0, CPU)
    found = model(input_ids=batch.ids, attention_mask=batch.mask, token_type_ids=batch.types).logits.squeeze(-1)
    wanted = torch.tensor([example.gold[0] for example in data.train.examples[:5]])
    assert mean_loss(model, batch).item() == pytest.approx(mse_loss(found.double(), wanted).item(), rel=1e-5)
    assert data.labels == ("number",)


def refused(folder: Path, code: int = 3, **settings: Any) -> str:
    with pytest.raises(DraftError) as error:
        TrialDraft.model_validate({"data": {"folder": str(folder)}, **settings}).resolve(Lookup())
    assert error.value.exit_code == code
    return str(error.value)


def write_labels(folder: Path, train: list[str], dev: list[str]) -> Path:
    for split, labels in (("train", train), ("dev", dev)):
        rows = [{"sentence": f"{split} {n}", "label": label} for n, label in enumerate(labels)]
        write_table(folder / f"{split}.tsv", rows)
    return folder


def test_labels_that_teach_nothing_or_have_a_fraction_are_refused(tmp_path: Path) -> None:
    message = refused(write_labels(tmp_path / "one", ["1", "1"], ["0", "1"]), task="sst2")
    assert message == "data: one: its train split has one label only, '1'; there is nothing to learn."
    folder = write_labels(tmp_path / "half", ["0", "1"], ["1", "0.5"])
    message = refused(folder, task="sst2")
    assert message.startswith(
        f"data: half, dev split: {folder / 'dev.tsv'}:3: the label is '0.5', a number with a frac"
    )
    assert "Use a regression like `stsb`" in message


def test_tagged_words_are_no_texts_and_texts_no_tagged_words(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        write_conllu(tmp_path / f"{split}.conllu", [[(split, "X"), ("b", "Y")]])
    message = refused(tmp_path, task="sst2")
    assert "train split: the task classifies texts, but this corpus has tagged words." in message
    assert "Use a task like `pos` or `ner`" in message
    folder = write_labels(tmp_path / "texts", ["0", "1"], ["1"])
    data = {"folder": str(folder), "columns": {"text": "sentence", "label": "label"}}
    for task in ("pos", "ner"):
        message = refused(tmp_path, task=task, data=data)
        assert "train split: the task tags words, but this corpus has whole texts with a label." in message
        assert "Use a task like `classification`" in message


def test_a_table_without_the_tasks_columns_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    message = refused(write_labels(tmp_path / "texts", ["0", "1"], ["1"]), code=2, task="mnli")
    assert (
        "train.tsv: which columns hold the text and its label? Which column is the second text of each pair" in message
    )
    assert "It has columns 'sentence', 'label'; its first rows: 'train 0', '0'; 'train 1', '1'" in message
