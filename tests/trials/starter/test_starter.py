"""The starter set: a model that `transformers` loads and that knows something, samples that can be cut again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from tests.builders import write_conllu, write_tagged_treebank
from tests.lab.starter import figures, sample
from tests.lab.starter.pretrain import MASK, ROW, SPECIAL, Pretraining, main, mask_rows, pack, read_and_encode
from tests.lab.starter.sample import cut_samples, sample_documents, write_samples
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


@pytest.mark.parametrize("name", list(BUNDLED_TREEBANKS))
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


@pytest.mark.skipif(not SHARED.exists(), reason="the full treebanks are not beside this checkout")
@pytest.mark.parametrize("name", list(BUNDLED_TREEBANKS))
def test_cutting_a_sample_again_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    write_samples(SHARED / name.removesuffix("-sample"), tmp_path, {"train": 800, "dev": 500, "test": 500}, 40)
    for split in ("train", "dev", "test"):
        assert (tmp_path / f"{split}.conllu").read_bytes() == (treebank_path(name) / f"{split}.conllu").read_bytes()


def test_a_dev_split_of_few_documents_takes_whole_ones_from_train_which_train_then_lacks() -> None:
    splits = {
        name: [[f"{name}{i}.{j}" for j in range(6)] for i in range(n)]
        for name, n in {"train": 9, "dev": 2, "test": 3}.items()
    }
    found = cut_samples(splits, {"train": 20, "dev": 12, "test": 6}, least=5)
    of = {name: {sentence.split(".")[0] for sentence in sentences} for name, sentences in found.items()}
    assert [len(found[name]) for name in ("train", "dev", "test")] == [20, 12, 6]
    assert (len(of["dev"]), len(of["test"])) == (5, 3)
    assert not of["train"] & of["dev"]
    few = cut_samples(splits, {"train": 50, "dev": 12, "test": 6}, least=5)  # train needs nearly all of its documents
    assert len(few["train"]) == 50


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 100), st.integers(0, 9))
def test_a_sample_is_of_whole_documents_but_one(sizes: list[int], wanted: int, seed: int) -> None:
    taken = sample_documents(sizes, wanted, np.random.default_rng(seed))
    assert sum(taken.values()) == min(wanted, sum(sizes))
    assert sum(taken[i] < sizes[i] for i in taken) <= 1


def test_the_command_cuts_all_three_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = write_tagged_treebank(tmp_path / "bank")
    sample.main([str(bank), "--sizes", "6", "4", "2", "--out", str(tmp_path / "cut")])
    cut = [read_conllu(tmp_path / "cut" / f"{split}.conllu", Columns()) for split in ("train", "dev", "test")]
    assert [len(sentences) for sentences in cut] == [6, 4, 2]
    assert "train.conllu: 6 sentences" in capsys.readouterr().out


@pytest.mark.slow
def test_the_eight_figures_are_a_table_of_two_weights_by_four_freezes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = write_tagged_treebank(tmp_path / "bank")
    figures.main([str(bank), "--seeds", "0", "1", "--sizes", "24", "8"])
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| weights | none | first 2 | first 4 | all |"
    assert [line.split(" | ")[0] for line in table[2:]] == ["| pre-trained", "| random weights"]
    assert all(0 < float(cell.split(" ± ")[0]) <= 1 for line in table[2:] for cell in line.strip("|").split(" | ")[1:])


# --- Pre-training: packing loses nothing, masking follows the rule, a stopped run goes on.


LENGTHS = st.lists(st.integers(3, ROW), min_size=1, max_size=120)


@given(LENGTHS)
def test_packing_keeps_every_sequence_once_and_no_row_overflows(lengths: list[int]) -> None:
    units = [np.full(n, i) for i, n in enumerate(lengths)]
    rows = list(pack(units, n_open=4))
    assert all(sum(len(unit) for unit in row) <= ROW for row in rows)
    assert sorted(int(unit[0]) for row in rows for unit in row) == list(range(len(units)))


def test_sequences_of_one_row_do_not_see_each_other_and_count_from_zero() -> None:
    batch = mask_rows([[np.array([2, 9, 3]), np.array([2, 8, 7, 3])]], share=0.0, rng=np.random.default_rng(0))
    assert batch.positions[0, :7].tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert batch.visible[0, 0, 0, :7].tolist() == [True] * 3 + [False] * 4
    assert batch.visible[0, 0, 4, :7].tolist() == [False] * 3 + [True] * 4
    assert len(batch.chosen) == 0


def test_a_fifth_is_chosen_and_four_fifths_of_that_are_masked_never_a_special() -> None:
    rows = [[np.array([2, *([500] * (ROW - 2)), 3])] for _ in range(400)]
    batch = mask_rows(rows, share=0.2, rng=np.random.default_rng(1))
    n = 400 * (ROW - 2)
    shown = batch.ids.flatten()[batch.chosen]
    assert len(batch.chosen) / n == pytest.approx(0.2, abs=0.01)  # 5 sigma of a binomial
    assert (shown == MASK).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == 500).float().mean() == pytest.approx(0.1, abs=0.015)
    assert batch.gold.unique().tolist() == [500]
    assert (batch.ids[:, [0, -1]] < len(SPECIAL)).all()


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


@pytest.mark.slow
def test_a_run_ends_with_its_time_and_goes_on_when_given_more(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    _, encoded = read_and_encode(options.corpus, options.out / "tokenizer.json")
    first = Pretraining(encoded, options)
    first.run()
    options.minutes = 0.06
    second = Pretraining(encoded, options)
    assert second.state["step"] == first.state["step"] > 0
    second.run()
    assert second.state["step"] > first.state["step"]


def test_the_command_leaves_a_folder_that_transformers_loads(
    options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--corpus", *options.corpus, "--out", str(options.out), "--minutes", "0.01", "--rows", "2"])
    assert "final loss" in capsys.readouterr().out
    assert AutoModel.from_pretrained(options.out / "model").config.n_layers == 6
    assert AutoTokenizer.from_pretrained(options.out / "model").pad_token_id == 0


def test_a_run_starts_from_the_weights_and_the_vocabulary_of_a_model(options: argparse.Namespace) -> None:
    options.minutes = 0
    run = Pretraining([], argparse.Namespace(**{**vars(options), "weights": model_path()}))
    bundled = AutoModel.from_pretrained(model_path()).state_dict()
    assert all(torch.equal(value, bundled[name]) for name, value in run.model.distilbert.state_dict().items())
    main(["--corpus", *options.corpus, "--out", str(options.out), "--minutes", "0.001", "--from", str(model_path())])
    vocabularies = [
        AutoTokenizer.from_pretrained(folder).get_vocab() for folder in (options.out / "model", model_path())
    ]
    assert vocabularies[0] == vocabularies[1]
    assert list(json.loads((options.out / "model" / "pretraining.json").read_text())["from"]) == ["model.safetensors"]


def test_sentences_of_excluded_files_are_not_trained_on(tmp_path: Path) -> None:
    for name, words in (("all.conllu", "ab"), ("sample.conllu", "b")):
        write_conllu(tmp_path / name, [[(word, "X")] * 3 for word in words])
    (tmp_path / "prose.txt").write_text("a book of b\n")
    arguments = [f"{tmp_path / name}:1" for name in ("all.conllu", "prose.txt")]
    _, encoded = read_and_encode(arguments, tmp_path / "tokenizer.json", [tmp_path / "sample.conllu"])
    assert [corpus.sentences for corpus, _ in encoded] == [["a a a"], ["a book of b"]]
