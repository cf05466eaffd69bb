"""Corpora as people have them, of a few hundred examples, made from the starter's samples: one of each kind."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from trials.corpora.corpus import Sentence
from trials.corpora.formats.conllu_reader import read_conllu
from trials.spec import Columns
from trials.starter import treebank_path

SAMPLE = "UD_English-EWT-sample"
TRAIN, DEV = 300, 60


def _sentences() -> dict[str, list[Sentence]]:
    folder = treebank_path(SAMPLE)
    train = read_conllu(folder / "train.conllu", Columns())
    return {"train": train[:TRAIN], "dev": train[TRAIN : TRAIN + DEV]}


def treebank(folder: Path) -> Path:
    """CoNLL-U with a dev split."""
    folder.mkdir()
    for split, sentences in _sentences().items():
        lines = [
            f"{n}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_"
            for sentence in sentences
            for n, (form, tag) in [*enumerate(zip(sentence.forms, sentence.tags, strict=True), 1), (0, ("", ""))]
        ]
        text = "\n".join("" if line.startswith("0\t") else line for line in lines)
        (folder / f"{split}.conllu").write_text(f"{text}\n", encoding="utf-8")
    return folder


def texts(folder: Path) -> Path:
    """One CSV of texts and a label, without a dev split: whether a text names somebody or something."""
    path = folder.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for sentence in [each for split in _sentences().values() for each in split]:
            rows.writerow((" ".join(sentence.forms), "name" if "PROPN" in sentence.tags else "none"))
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "treebank": treebank, "texts": texts
}  # fmt: skip
