"""Pre-training: packing loses nothing, masking follows the rule, a stopped run goes on."""

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

from tests.builders import write_conllu
from trials.starter import model_path
from trials.starter_tools.pretrain import MASK, ROW, SPECIAL, Pretraining, main, mask_rows, pack, read_and_encode

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
