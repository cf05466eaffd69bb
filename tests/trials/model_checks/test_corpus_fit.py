"""A model that does not fit its own files or the corpus is refused, or noted, before a trial runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from tests.builders import write_conllu
from tests.trials.model_checks.test_checked_models import change_json, change_weights, checked, refusal
from trials.errors import ModelError
from trials.model_checks.checked_models import check_fit
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.starter import STARTER

Tensors = dict[str, torch.Tensor]
LAYER = "encoder.layer.0."
CASED = '{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}'


@pytest.fixture
def model(tiny_models: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to be changed."""
    return shutil.copytree(tiny_models["bert"], tmp_path / "mine")


def corpus(folder: Path, words: Sequence[str]) -> Path:
    folder.mkdir()
    for split, n in (("train", 6), ("dev", 3)):
        write_conllu(
            folder / f"{split}.conllu", [[(word, "X"), (f"a{'b' * i}", "Y")] for i in range(n) for word in words]
        )
    return folder


def fit(folder: Path | str, data: Path, *, lowercase: bool = False) -> tuple[str, ...]:
    spec = find_model(ModelDraft(folder=str(folder)))
    return check_fit(spec, "pos", DataDraft(folder=str(data)).resolve(), lowercase=lowercase)


def add(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: torch.zeros(2, 2)})


def renamed(prefix: str) -> Callable[[Tensors], object]:
    def change(tensors: Tensors) -> None:
        for name in [*tensors]:
            tensors[prefix + name] = tensors.pop(name)

    return change


def spoilt(number: float) -> Callable[[Tensors], object]:
    return lambda tensors: next(t for name, t in tensors.items() if name.endswith("dense.weight")).fill_(number)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            add(f"{LAYER}attention.self.query.lora_A.default.weight"),
            "lora_A.default.weight: an adapter that is not merged",
        ),
        (add(f"{LAYER}output.adapters.x.weight"), "output.adapters.x.weight: adapters that are not merged"),
        (add(f"{LAYER}attention.self.distance_embedding.weight"), "distance_embedding.weight: relative positions"),
        (add(f"{LAYER}gate.weight"), "does not read, encoder.layer.0.gate.weight: another architecture's"),
        (renamed("_orig_mod."), "the names of tensors begin with '_orig_mod.', of torch.compile"),
        (
            renamed("base_model.model."),
            "of peft, whose adapter is not merged. Save the model inside it: `model.merge_and",
        ),
        (spoilt(float("nan")), "dense.weight holds numbers that are not finite (NaN or inf)"),
    ],
)
def test_tensors_that_would_be_dropped_or_poison_training_are_refused_by_name(
    model: Path, change: Callable[[Tensors], object], said: str
) -> None:
    change_weights(model, change)
    assert said in refusal(model)


def test_relative_positions_that_a_configuration_asks_for_are_refused(model: Path) -> None:
    change_json(model / "config.json", position_embedding_type="relative_key")
    assert "position_embedding_type: 'relative_key' asks for relative positions" in refusal(model)


def test_a_model_one_folder_down_is_named(model: Path) -> None:
    with pytest.raises(ModelError, match=rf"no config\.json, so it is no model\. There is one in {model}: give that"):
        find_model(ModelDraft(folder=str(model.parent)))


def test_a_cased_vocabulary_that_its_tokenizer_lower_cases_is_noted(model: Path) -> None:
    vocabulary = sorted((AutoTokenizer.from_pretrained(model).get_vocab()).items(), key=lambda entry: entry[1])
    for path in model.glob("*token*.json"):
        path.unlink()
    (model / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in vocabulary))
    (note,) = checked(model)
    assert "its vocabulary has capital letters, but its tokenizer lower-cases" in note
    (model / "tokenizer_config.json").write_text(CASED)
    assert checked(model) == ()


def test_a_word_of_the_corpus_beyond_the_table_is_refused_and_one_that_no_text_has_is_not(
    model: Path, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.add_tokens(["Nauryz"])
    tokenizer.save_pretrained(model)
    assert fit(model, corpus(tmp_path / "without", ["A", "B"])) == ()
    with pytest.raises(ModelError, match=r"gives 'Nauryz', a word of with, the number .*resize_token_embeddings"):
        fit(model, corpus(tmp_path / "with", ["A", "Nauryz"]))


def test_words_that_a_tokenizer_cannot_spell_are_noted_and_a_corpus_of_them_refused(
    model: Path, tmp_path: Path
) -> None:
    (note,) = fit(model, corpus(tmp_path / "half", ["\u0e01\u0e23", "\u0e2a\u0e27"]))
    assert "50 % of the words of half's dev split are unknown to its tokenizer" in note
    folder = corpus(tmp_path / "all", ["\u0e01\u0e23"])
    for split in ("train", "dev"):
        write_conllu(folder / f"{split}.conllu", [[("\u0e01\u0e23", "X"), ("\u0e2a\u0e27", "Y")]] * (2 + len(split)))
    for each_model in (model, STARTER):
        with pytest.raises(ModelError, match="words of all's dev split are unknown to its tokenizer"):
            fit(each_model, folder)


def test_a_tokenizer_that_knows_small_letters_only_is_told_what_to_set(model: Path, tmp_path: Path) -> None:
    for path in model.glob("*token*.json"):
        path.unlink()
    (model / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sees", "a", "##b", ""]))
    (model / "tokenizer_config.json").write_text(CASED)
    (note,) = fit(model, corpus(tmp_path / "data", ["SEES"]))
    assert "50 % of the words" in note
    assert "Most of them it knows in small letters: set `lowercase: true`." in note
    assert fit(model, tmp_path / "data", lowercase=True) == ()
