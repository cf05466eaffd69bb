"""The starter set: a model that `transformers` loads and that knows something, samples that can be cut again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from tests.builders import write_conllu, write_tagged_treebank
from tests.examples import first
from tests.lab.starter import sample
from tests.lab.starter.pretrain import main
from trials.datasets.formats.conllu_reader import read_conllu
from trials.settings import Columns
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.starter import BUNDLED_TREEBANKS, model_path, treebank_path

SHARED = Path(__file__).parents[4] / "shared" / "data"


def test_the_model_is_a_small_distilbert_that_transformers_loads() -> None:
    model, tokenizer = AutoModel.from_pretrained(model_path()), AutoTokenizer.from_pretrained(model_path())
    config = model.config
    assert (config.n_layers, config.dim, config.n_heads, config.hidden_dim) == (6, 128, 4, 512)
    assert len(tokenizer) == config.vocab_size == 8_000
    assert tokenizer.tokenize("Hello") == tokenizer.tokenize("hello")
    assert sum(path.stat().st_size for path in model_path().iterdir()) < 10_000_000


def test_the_model_card_states_licence_data_steps_loss_and_its_eight_figures() -> None:
    card = (model_path() / "README.md").read_text(encoding="utf-8")
    facts = json.loads((model_path() / "pretraining.json").read_text(encoding="utf-8"))
    assert "CC BY-SA 4.0" in card
    assert f"{facts['steps']:,}" in card
    assert f"{facts['final_loss']:.2f}" in card
    assert f"{facts['minutes']:g} minutes" in card
    rows = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| ") and " ± " in line]
    trained, random = ([float(cell.split(" ± ")[0]) for cell in row[1:]] for row in rows)
    assert len(trained) == len(random) == 4
    assert all(known > chance + 0.1 for known, chance in zip(trained, random, strict=True))


def test_the_starter_model_is_found_by_its_word() -> None:
    spec = find_model(ModelDraft(folder="starter"))
    assert (spec.name, spec.family, spec.n_layers, spec.n_positions) == ("starter", "distilbert", 6, 128)


@pytest.mark.parametrize("name", first(1, BUNDLED_TREEBANKS))
def test_a_sample_has_800_500_500_sentences_its_licence_and_40_dev_documents_or_more_each_in_one_split(
    name: str,
) -> None:
    data = DataDraft(bundled=name).resolve()
    splits = [read_conllu(Path(path), Columns()) for path in (*data.train, *data.dev, *data.test)]
    assert [len(sentences) for sentences in splits] == [800, 500, 500]
    documents = [{sentence.document for sentence in sentences} for sentences in splits]
    assert len(documents[1]) >= 40
    assert len(set.union(*documents)) == sum(map(len, documents))
    assert "CC BY-SA 4.0" in (treebank_path(name) / "README.md").read_text(encoding="utf-8")


def test_the_command_cuts_all_three_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = write_tagged_treebank(tmp_path / "bank")
    sample.main([str(bank), "--sizes", "6", "4", "2", "--out", str(tmp_path / "cut")])
    cut = [read_conllu(tmp_path / "cut" / f"{split}.conllu", Columns()) for split in ("train", "dev", "test")]
    assert [len(sentences) for sentences in cut] == [6, 4, 2]
    assert "train.conllu: 6 sentences" in capsys.readouterr().out


# --- Pre-training: packing loses nothing, masking follows the rule, a stopped run goes on.


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
    prose = "\n".join(" ".join(np.random.default_rng(i).choice(words, 12)) for i in range(400))
    (tmp_path / "books.txt").write_text(prose)
    write_conllu(tmp_path / "train.conllu", [[(word, "X") for word in words[:9]]] * 20)
    corpora = [f"{tmp_path / 'books.txt'}:1", f"{tmp_path / 'train.conllu'}:3"]
    return argparse.Namespace(
        corpus=corpora, out=tmp_path, minutes=0.03, seed=0, lr=3e-3, warmup=0.1, masked=0.2, rows=2, dropout=0.1,
        weights=None, without=[],
    )  # fmt: skip


def test_the_command_leaves_a_folder_that_transformers_loads(
    options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--corpus", *options.corpus, "--out", str(options.out), "--minutes", "0.002", "--rows", "2"])
    assert "final loss" in capsys.readouterr().out
    assert AutoModel.from_pretrained(options.out / "model").config.n_layers == 6
    assert AutoTokenizer.from_pretrained(options.out / "model").pad_token_id == 0
