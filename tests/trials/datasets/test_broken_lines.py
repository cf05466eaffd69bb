"""Every broken line of a corpus is told, up to twenty, and the number of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.examples import each
from trials.datasets.broken_lines import MOST, BrokenLines, BrokenLinesError
from trials.datasets.corpus import CORPUS_FORMATS
from trials.errors import DataError
from trials.settings import Columns
from trials.sources.corpus_draft import DataDraft
from trials.tasks.reading import read_corpus

CONLLU = "1\ta\t_\tX" + "\t_" * 6 + "\n\n"
FILES: dict[str, tuple[Columns, str, str]] = {  # format: columns, a good line, a broken one
    "conllu": (Columns(), CONLLU, "1\tonly\tthree\n\n"),
    "columns": (Columns(), "a X\n\n", "word\n\n"),
    "tsv": (Columns(text=0, label=1), "a b\tx\n", "no tab\n"),
    "csv": (Columns(text=0, label=1), "a b,x\n", ",x\n"),
    "jsonl": (Columns(text="text", label="label"), '{"text": "a", "label": "x"}\n', '{"text": "a"}\n'),
}


def problems(path: Path, format_: str, pattern: Sequence[bool], first: int | None = None) -> list[str]:
    """What is said about a file of good (True) and broken lines."""
    columns, good, bad = FILES[format_]
    path.write_text("".join(good if is_good else bad for is_good in pattern))
    with pytest.raises(DataError) as error:
        CORPUS_FORMATS[format_](path, columns, first)
    return str(error.value).split("\n")


@each("format_", FILES)
def test_all_broken_lines_are_told_in_their_order(tmp_path: Path, format_: str) -> None:
    said = problems(tmp_path / "x", format_, [True, False, True, False, False])
    height = 2 if format_ in ("conllu", "columns") else 1  # a blank line follows each
    assert [int(line.split(":")[1]) for line in said] == [height * n + 1 for n in (1, 3, 4)]


@each("format_", FILES)
def test_beyond_twenty_the_rest_is_counted(tmp_path: Path, format_: str) -> None:
    said = problems(tmp_path / "x", format_, [True, *[False] * (MOST + 5)])
    assert len(said) == MOST + 1
    assert said[-1] == "... and 5 more broken lines."


def test_several_lines_of_one_sentence_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.conllu").write_text(CONLLU.strip() + "\n2\tb\n3\tc\n\n")
    with pytest.raises(BrokenLinesError) as error:
        CORPUS_FORMATS["conllu"](tmp_path / "x.conllu", Columns())
    assert error.value.n == 2


def test_the_broken_lines_of_all_splits_are_told_together(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(f"{split} b\tx\n{split} c\ty\nno tab in {split}\n")
    data = DataDraft(folder=str(tmp_path), columns=Columns(text=0, label=1)).resolve()
    with pytest.raises(DataError) as error:
        read_corpus("classification", data)
    assert [Path(line.split(":")[0]).name for line in str(error.value).split("\n")] == [
        "train.tsv", "dev.tsv", "test.tsv"
    ]  # fmt: skip


def test_every_label_of_a_regression_that_is_no_number_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\t1.5\nc\td\tmuch\ne\tf\tmore\n")
    (tmp_path / "dev.tsv").write_text("a\tb\t2.5\ng\th\tnan\n")
    data = DataDraft(folder=str(tmp_path), columns=Columns(text=0, pair=1, label=2)).resolve()
    with pytest.raises(DataError) as error:
        read_corpus("stsb", data)
    assert [line.split("'")[1] for line in str(error.value).split("\n")] == ["much", "more", "nan"]


def test_collections_add_up_and_an_empty_one_raises_nothing() -> None:
    inner, outer = BrokenLines(), BrokenLines()
    outer.raise_if_any()
    for n in range(MOST + 3):
        inner.add(DataError(f"line {n}"))
    with pytest.raises(BrokenLinesError) as error:
        inner.raise_if_any()
    outer.add(DataError("first"))
    outer.add(error.value)
    assert (outer.lines, outer.n) == (["first", *(f"line {n}" for n in range(MOST - 1))], MOST + 4)
