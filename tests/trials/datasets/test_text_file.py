"""However a text file was saved its lines are the same, and what cannot be read is named."""

from __future__ import annotations

import gzip
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.datasets.corpus import CORPUS_FORMATS
from trials.datasets.text_file import MOST, BrokenLines, BrokenLinesError, read_lines
from trials.errors import DataError
from trials.settings import Columns
from trials.sources.corpus_draft import DataDraft
from trials.tasks.reading import read_corpus

DATA = Path(__file__).parents[4] / "shared" / "data"
CORPORA = sorted(path for path in DATA.glob("*/*") if path.suffix in {".conllu", ".tsv", ".txt"})
SAVED: dict[str, Callable[[str], bytes]] = {
    "as on Unix": lambda text: text.encode(),
    "as on Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "as on an old Mac": lambda text: text.replace("\n", "\r").encode(),
    "with a byte-order mark": lambda text: text.encode("utf-8-sig"),
    "decomposed": lambda text: unicodedata.normalize("NFD", text).encode(),
    "without a last line end": lambda text: text.rstrip("\n").encode(),
}


def lines_of(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return read_lines(path)


def refusal(path: Path, content: bytes) -> str:
    """The message, without the folder."""
    with pytest.raises(DataError) as error:
        lines_of(path, content)
    assert str(error.value).startswith(str(path))
    return str(error.value).removeprefix(f"{path.parent}/")


@each("how", SAVED)
def test_the_lines_do_not_depend_on_how_the_file_was_saved(tmp_path: Path, how: str) -> None:
    content = SAVED[how]("café\n\nÅse Қара 한국\n")
    assert lines_of(tmp_path / "x.txt", content) == ["café", "", "Åse Қара 한국"]
    assert lines_of(tmp_path / "x.txt.gz", gzip.compress(content)) == ["café", "", "Åse Қара 한국"]


@each("separator", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"])
def test_a_line_ends_nowhere_else(tmp_path: Path, separator: str) -> None:
    assert lines_of(tmp_path / "x.txt", f"a{separator}b\n".encode()) == [f"a{separator}b"]


def test_only_a_first_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert lines_of(tmp_path / "x.txt", "\ufeffa\n\ufeffb".encode()) == ["a", "\ufeffb"]


@each("content, lines", [("", []), ("\n", [""]), ("\n\n", ["", ""]), ("a\n\r\nb", ["a", "", "b"])])
def test_empty_lines_count(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert lines_of(tmp_path / "x.txt", content.encode()) == lines


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"))))
def test_what_is_written_is_read_in_nfc(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = lines_of(Path(folder) / "x.txt", "".join(f"{line}\n" for line in lines).encode())
    assert found == [unicodedata.normalize("NFC", line) for line in lines]


# --- What it refuses


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_latin_1_is_named_with_its_line(tmp_path: Path, end: str) -> None:
    rule = "not UTF-8 text (invalid continuation byte at byte {} of the file). Save it as UTF-8."
    content = f"one{end}two{end}café au lait{end}".encode("latin-1")
    assert refusal(tmp_path / "x.txt", content) == f"x.txt:3: {rule.format(9 + 2 * len(end))}"
    assert refusal(tmp_path / "x.gz", gzip.compress(content)).startswith("x.gz:3: not UTF-8 text")


def test_utf_16_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x.txt", "a".encode("utf-16")).startswith("x.txt:1: not UTF-8 text (invalid start byte")


@each("cut", [0, 1, 5, 12, 30, -1])
def test_a_truncated_archive_is_named(tmp_path: Path, cut: int) -> None:
    message = refusal(tmp_path / "x.txt.gz", gzip.compress(b"a line of text\n" * 100)[:cut])
    assert message.startswith("x.txt.gz: not a complete gzip file (")
    assert message.endswith("). Download or compress it again.")


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(bytes(range(256)) * 9))
    content[40] ^= 0xFF
    assert refusal(tmp_path / "x.gz", bytes(content)).startswith("x.gz: not a complete gzip file (")


def test_text_that_is_only_called_an_archive_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x.gz", b"a\n").startswith("x.gz: not a complete gzip file (Not a gzipped file")


def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: cannot be read \(No such file or directory\)"):
        read_lines(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_lines(tmp_path)


@pytest.mark.skipif(not CORPORA, reason=f"no corpora at {DATA}")
def test_the_published_corpora_are_in_nfc_already() -> None:
    changed = [path.name for path in CORPORA if not unicodedata.is_normalized("NFC", path.read_text(encoding="utf-8"))]
    assert changed == []


# --- Up to twenty broken lines of a corpus are listed, and the others counted.


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
