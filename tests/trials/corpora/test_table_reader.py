"""Tables of texts and of sentences are read alike from every format, and a broken row is named by its place."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.corpora.corpus import CORPUS_FORMATS, Sentence, Text
from trials.corpora.formats.table_reader import read_csv, read_parquet
from trials.errors import DataError
from trials.escaping import compose
from trials.spec import Columns

BY_NAME = Columns(text="sentence", label="class")
BY_PLACE = Columns(text=0, label=1)
WORDS = Columns(tokens="tokens", tags="tags")
Rows = list[dict[str, Any]]


def write_jsonl(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: Rows) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_tsv(path: Path, rows: Rows) -> None:
    path.write_text("".join("\t".join(map(str, cells)) + "\n" for cells in (rows[0], *(row.values() for row in rows))))


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([rows[0], *(row.values() for row in rows)])


WRITERS: dict[str, Callable[[Path, Rows], None]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}


def read(tmp_path: Path, format_: str, content: str | Rows, columns: Columns) -> list[Any]:
    """What a format's reader finds, without places."""
    path = tmp_path / f"x.{format_}"
    if isinstance(content, str):
        path.write_bytes(content.encode())
    else:
        WRITERS[format_](path, content)
    return [item._replace(place="") for item in CORPUS_FORMATS[format_](path, columns)]


def refusal(tmp_path: Path, format_: str, content: str | Rows, columns: Columns) -> str:
    """The message, without the folder."""
    with pytest.raises(DataError) as error:
        read(tmp_path, format_, content, columns)
    assert str(error.value).startswith(f"{tmp_path}/")
    return str(error.value).removeprefix(f"{tmp_path}/")


def place(format_: str, row: int) -> str:
    """Where a row stands: behind a header line in the text tables."""
    return {"parquet": f"x.parquet:row {row}", "jsonl": f"x.jsonl:{row}"}.get(format_, f"x.{format_}:{row + 1}")


@each("format_", WRITERS)
def test_texts_pairs_and_sentences_are_read_in_order_with_their_places_from_any_format(
    tmp_path: Path, format_: str
) -> None:
    rows = [{"id": "7", "a": "It rains.", "b": "It is wet.", "y": "yes"}, {"id": "8", "a": "dull", "b": "x", "y": "no"}]
    pairs = Columns(text="a", pair="b", label="y")
    expected = [Text("It rains.", "It is wet.", "yes"), Text("dull", "x", "no")]
    assert read(tmp_path, format_, rows, pairs) == expected
    items = CORPUS_FORMATS[format_](tmp_path / f"x.{format_}", pairs)
    assert [item.place for item in items] == [f"{tmp_path}/{place(format_, row)}" for row in (1, 2)]
    assert read(tmp_path, format_, rows, Columns(text="a", label="y"))[0] == Text("It rains.", None, "yes")
    joined = format_ in {"tsv", "csv"}
    cells: dict[str, Any] = {"tokens": ["New", "York"], "tags": ["B-LOC", "I-LOC"]}
    rows = [{key: " ".join(words) for key, words in cells.items()}] if joined else [cells]
    assert read(tmp_path, format_, rows, WORDS) == [Sentence(("New", "York"), ("B-LOC", "I-LOC"))]


@pytest.mark.parametrize("format_", ["tsv", "csv"])
def test_a_file_that_is_asked_by_position_has_no_header(tmp_path: Path, format_: str) -> None:
    content = "sentence\t1\nlabel\t0\n".replace("\t", "," if format_ == "csv" else "\t")
    assert read(tmp_path, format_, content, BY_PLACE) == [Text("sentence", None, "1"), Text("label", None, "0")]
    assert read(tmp_path, format_, content, Columns(text=-2, label=-1)) == read(tmp_path, format_, content, BY_PLACE)


def test_quotes_of_tsv_are_characters(tmp_path: Path) -> None:
    content = '"He said\t1\n"so"\t0\n5" disk, "\t1\n'
    found = [text.text for text in read(tmp_path, "tsv", content, BY_PLACE)]
    assert found == ['"He said', '"so"', '5" disk, "']


def test_a_quoted_cell_of_csv_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    content = 'sentence,class\r\n"one, ""two""\r\nthree",a\r\n\r\nnext,b\r\n'
    (tmp_path / "x.csv").write_bytes(content.encode())
    assert read_csv(tmp_path / "x.csv", BY_NAME) == [
        Text('one, "two"\nthree', None, "a", f"{tmp_path}/x.csv:2"),
        Text("next", None, "b", f"{tmp_path}/x.csv:5"),
    ]


@each(
    "format_, label, expected",
    [
        *((format_, label, str(label)) for format_ in WRITERS for label in (1, 0, -3, 3.8, "A b")),
        *(("tsv", 1.0, "1.0"), ("csv", 1.0, "1.0"), ("jsonl", 1.0, "1"), ("parquet", 1.0, "1")),
        *(("jsonl", True, "true"), ("parquet", True, "true")),
    ],
)
def test_a_label_is_its_text(tmp_path: Path, format_: str, label: object, expected: str) -> None:
    assert read(tmp_path, format_, [{"sentence": "a", "class": label}], BY_NAME)[0].label == expected


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_a_label_may_be_a_list_of_one_and_empty_where_there_is_none(tmp_path: Path, format_: str) -> None:
    assert read(tmp_path, format_, [{"sentence": "a", "class": ["x"]}], BY_NAME)[0].label == "x"
    assert read(tmp_path, format_, [{"sentence": "a", "class": None}], BY_NAME)[0].label == ""


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")).filter(str.strip)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.sampled_from(["csv", "jsonl", "parquet"]))
def test_what_is_written_is_read(cells: list[tuple[str, str]], format_: str) -> None:
    rows = [{"sentence": text, "class": label} for text, label in cells]
    with tempfile.TemporaryDirectory() as folder:
        found = read(Path(folder), format_, rows, BY_NAME)
    assert found == [Text(compose(text), None, compose(label)) for text, label in cells]


# --- Rows that it refuses


@each("format_", WRITERS)
@each("key, name", [("text", "sentence"), ("pair", "other")])
@each("empty", ["", "  ", "\u00a0"])
def test_an_empty_text_is_named(tmp_path: Path, format_: str, key: str, name: str, empty: str) -> None:
    row = {"sentence": "a", "other": "b", "class": "x"}
    message = refusal(tmp_path, format_, [row, row | {name: empty}], BY_NAME.model_copy(update={"pair": "other"}))
    assert message == f"{place(format_, 2)}: the {key} is empty. Fix or delete this row."


@each("format_", ["jsonl", "parquet"])
@each(
    "row, rule",
    [
        *(({"sentence": "a", "class": x}, f"label is {x!r}, neither") for x in (math.inf, ["x", "y"], {"x": 1})),
        *(({"sentence": x, "class": "x"}, f"text is {x!r}, not a string.") for x in (None, 5, ["a"])),
    ],
)
def test_a_cell_of_another_kind_is_named(tmp_path: Path, format_: str, row: dict[str, Any], rule: str) -> None:
    assert refusal(tmp_path, format_, [row], BY_NAME).startswith(f"{place(format_, 1)}: the {rule}")


@each("format_", ["tsv", "csv"])
@each("row, has", [("b", "one column"), ("b\tx\ty", "3 columns")])
def test_a_row_of_another_length_is_named(tmp_path: Path, format_: str, row: str, has: str) -> None:
    content = f"sentence\tclass\na\tx\n\n{row}\n".replace("\t", "," if format_ == "csv" else "\t")
    start = f"x.{format_}:4: a row has {has}, the"
    assert refusal(tmp_path, format_, content, BY_NAME).startswith(f"{start} header has 2.")
    assert refusal(tmp_path, format_, content, BY_PLACE).startswith(f"{start} first row has 2.")


@pytest.mark.parametrize("row", ['"b,y\nc,y\n', '"b"c,y\n', '"b""\n'])
def test_broken_quotes_are_named_with_the_line_their_row_starts_at(tmp_path: Path, row: str) -> None:
    message = refusal(tmp_path, "csv", f'sentence,class\n"a\na",x\n{row}', BY_NAME)
    assert message.startswith("x.csv:4: the row that starts here is not CSV (")


@each(
    "content, message",
    [
        *(
            (f'{{"sentence": "a", "class": 1}}\n\n{line}\n', "3: not JSON (")
            for line in ("{", "a\tb", '{"sentence": "a",}', "[" * 100_000)
        ),
        *(
            (line, f"1: a line holds one JSON object, not {kind}.")
            for line, kind in (("[1, 2]", "list"), ("7", "int"), ("null", "NoneType"))
        ),
        ('{"sentence": "a \\ud83d", "class": 1}\n', "1: the text is not Unicode text ("),
        ('{"sentence": "a", "class": "x"}\n{"sentence": "b"}', "2: columns.label: unknown 'class'. Known: sentence."),
    ],
)
def test_a_line_that_is_no_json_of_its_columns_is_named(tmp_path: Path, content: str, message: str) -> None:
    assert refusal(tmp_path, "jsonl", content, BY_NAME).startswith(f"x.jsonl:{message}")


@each("format_", ["jsonl", "parquet"])
@each(
    "tokens, tags, rule",
    [
        (["a", "b"], ["O"], "2 tokens but 1 tags."),
        (["a", ""], ["O", "O"], "number 2 of the tokens is ''."),
        (["a", None], ["O", "O"], "number 2 of the tokens is None."),
        (["a", "b"], ["O", None], "number 2 of the tags is None."),
        ([1, 2], ["O", "O"], "number 1 of the tokens is 1."),
        (["a"], [1.5], "number 1 of the tags is 1.5."),
        (["a"], [True], "number 1 of the tags is True."),
        (5, ["O"], "the tokens are 5, not a list of strings."),
        (None, ["O"], "the tokens are None, not a list of strings."),
        ([], [], "the tokens are [], not a list of strings."),
    ],
)
def test_words_and_tags_that_do_not_fit_are_named(
    tmp_path: Path, format_: str, tokens: object, tags: object, rule: str
) -> None:
    message = refusal(tmp_path, format_, [{"tokens": tokens, "tags": tags}], WORDS)
    assert message == f"{place(format_, 1)}: {rule} Fix or delete this row."


# --- Files and columns that it refuses


@each("format_", WRITERS)
def test_an_unknown_name_is_named_with_those_there_are(tmp_path: Path, format_: str) -> None:
    message = refusal(tmp_path, format_, [{"sentence": "a", "class": "x"}], Columns(text="sentense", label="class"))
    assert message.endswith("columns.text: unknown 'sentense', did you mean 'sentence'? Known: class, sentence.")
    assert message.startswith(f"x.{format_}")


@each(
    "content, columns, rule",
    [
        ("class\tsentence\tclass\nx\ta\ty\n", BY_NAME, "columns.label: the header has 'class' twice. Rename one."),
        ("a\tx\n", Columns(text=0, label=2), "columns.label: there is no column 2, a row has 2."),
        ("a\tx\n", Columns(text=0, label=-3), "columns.label: there is no column -3, a row has 2."),
    ],
)
def test_a_column_that_is_twice_there_or_not_is_named(
    tmp_path: Path, content: str, columns: Columns, rule: str
) -> None:
    assert refusal(tmp_path, "tsv", content, columns) == f"x.tsv:1: {rule}"


@each("format_", WRITERS)
@each(
    "columns, rule",
    [
        (Columns(), "a table does not say what its columns hold. Give `columns`"),
        (Columns(label="class"), "a table does not say what its columns hold. Give `columns`"),
        (Columns(text="sentence"), "columns.label: not given, and a row needs it beside text."),
        (Columns(tokens="sentence"), "columns.tags: not given, and a row needs it beside tokens."),
        (Columns(text="sentence", label="class", tags="class"), "columns.tags: a table of texts has no such column."),
        (Columns(tokens="a", tags="b", pair="c"), "columns.pair: a table of sentences has no such column."),
        (Columns(text="sentence", label=1), "columns: text: sentence, label: 1 mixes names and positions."),
    ],
)
def test_columns_that_do_not_go_together_are_refused(tmp_path: Path, format_: str, columns: Columns, rule: str) -> None:
    message = refusal(tmp_path, format_, [{"sentence": "a", "class": "x"}], columns)
    assert message.startswith(f"x.{format_}: {rule}")


def test_a_truncated_or_damaged_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path, [{"sentence": f"text {n}", "class": "x"} for n in range(5_000)])
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[: len(whole) // 2], whole[:4] + b"\xff" * 2_000 + whole[2_004:]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"x\.parquet: "):
            read_parquet(path, BY_NAME)
