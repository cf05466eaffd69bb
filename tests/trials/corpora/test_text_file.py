"""However a text file was saved its lines are the same, and what cannot be read is named."""

from __future__ import annotations

import gzip
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.examples import each
from trials.corpora.broken_lines import MOST
from trials.corpora.corpus import CORPUS_FORMATS
from trials.corpora.text_file import read_lines
from trials.errors import DataError
from trials.sources.places.corpus_draft import DataDraft
from trials.spec import Columns
from trials.tasks.task_corpus import read_corpus

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


@each("how", SAVED)
def test_the_lines_do_not_depend_on_how_the_file_was_saved(tmp_path: Path, how: str) -> None:
    content = SAVED[how]("café\n\nÅse Қара 한국\n")
    assert lines_of(tmp_path / "x.txt", content) == ["café", "", "Åse Қара 한국"]
    assert lines_of(tmp_path / "x.txt.gz", gzip.compress(content)) == ["café", "", "Åse Қара 한국"]


@each(
    "content, lines",
    [
        *((f"a{end}b\n", [f"a{end}b"]) for end in ("\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029")),
        ("\ufeffa\n\ufeffb", ["a", "\ufeffb"]),  # only a first byte-order mark is dropped
        *(("", []), ("\n", [""]), ("\n\n", ["", ""]), ("a\n\r\nb", ["a", "", "b"])),
    ],
)
def test_a_line_ends_where_it_is_ended_and_nowhere_else(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert lines_of(tmp_path / "x.txt", content.encode()) == lines


LATIN_1 = {end: f"one{end}two{end}café au lait{end}".encode("latin-1") for end in ("\n", "\r\n", "\r")}
PACKED = gzip.compress(bytes(range(256)) * 9)


@each(
    "name, content, message",
    [
        *(
            (
                "x.txt",
                content,
                f":3: not UTF-8 text (invalid continuation byte at byte {9 + 2 * len(end)} of the file).",
            )
            for end, content in LATIN_1.items()
        ),
        *(("x.gz", gzip.compress(content), ":3: not UTF-8 text") for content in LATIN_1.values()),
        ("x.txt", "a".encode("utf-16"), ":1: not UTF-8 text (invalid start byte"),
        *(("x.gz", PACKED[:cut], ": not a complete gzip file (") for cut in (0, 1, 5, 12, 30, -1)),
        ("x.gz", PACKED[:40] + b"\xff" + PACKED[41:], ": not a complete gzip file ("),
        ("x.gz", b"a\n", ": not a complete gzip file (Not a gzipped file"),
    ],
)
def test_what_is_no_utf_8_or_no_whole_archive_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(DataError) as error:
        lines_of(tmp_path / name, content)
    assert str(error.value).startswith(f"{tmp_path / name}{message}")


def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: cannot be read \(No such file or directory\)"):
        read_lines(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_lines(tmp_path)


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
def test_beyond_twenty_the_rest_is_counted(tmp_path: Path, format_: str) -> None:
    said = problems(tmp_path / "x", format_, [True, *[False] * (MOST + 5)])
    assert (len(said), said[-1]) == (MOST + 1, "... and 5 more broken lines.")


def test_the_broken_lines_of_all_splits_are_told_together(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(f"{split} b\tx\n{split} c\ty\nno tab in {split}\n")
    data = DataDraft(folder=str(tmp_path), columns=Columns(text=0, label=1)).resolve()
    with pytest.raises(DataError) as error:
        read_corpus("classification", data)
    assert [Path(line.split(":")[0]).name for line in str(error.value).split("\n")] == [
        "train.tsv", "dev.tsv", "test.tsv"
    ]  # fmt: skip
