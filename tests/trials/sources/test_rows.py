"""Rows of the hub's datasets become the same JSON lines whatever wrote them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.errors import DataError
from trials.sources.hub_rows import converter, write_rows

datasets: Any = pytest.importorskip("datasets")  # it has no types
ClassLabel, Features, Value = datasets.ClassLabel, datasets.Features, datasets.Value
LargeList, List, Sequence = datasets.LargeList, datasets.List, datasets.Sequence

TAGS = ClassLabel(names=["O", "B-LOC"])


def written(path: Path, features: dict[str, Any], *rows: dict[str, Any]) -> tuple[str, bool]:
    """The text of the file, and whether it is labelled; rows go through the library as a download does."""
    columns = {name: [row[name] for row in rows] for name in features}
    table = datasets.Dataset.from_dict(columns, features=Features(features))
    labelled = write_rows(table, table.features, path / "x.jsonl")
    return (path / "x.jsonl").read_bytes().decode("utf-8"), labelled


def test_keys_are_sorted_and_letters_stand_as_they_are(tmp_path: Path) -> None:
    text, _ = written(tmp_path, {"b": Value("string"), "a": Value("int32")}, {"b": "é\u2028\n", "a": 1})
    assert text == '{"a":1,"b":"é\u2028\\n"}\n'


@each("feature", [List(TAGS), LargeList(TAGS), Sequence(TAGS), List(TAGS, length=2)])
def test_class_numbers_in_lists_become_names(tmp_path: Path, feature: Any) -> None:
    assert written(tmp_path, {"tags": feature}, {"tags": [0, 1]})[0] == '{"tags":["O","B-LOC"]}\n'


def test_what_is_absent_hidden_or_no_number_is_null(tmp_path: Path) -> None:
    features = {"tag": TAGS, "tags": List(TAGS), "text": Value("string"), "score": Value("float32")}
    text, _ = written(tmp_path, features, {"tag": -1, "tags": None, "text": None, "score": math.nan})
    assert json.loads(text) == {"tag": None, "tags": None, "text": None, "score": None}


@each(
    "features, rows, labelled",
    [
        ({"label": TAGS}, [-1, -1], False),
        ({"label": TAGS}, [-1, 0], True),
        ({"label": TAGS}, [], True),
        ({"label": Value("float32")}, [-1.0, -1.0], False),  # GLUE's regression, STS-B
        ({"label": Value("float32")}, [-1.0, 2.5], True),
        ({"score": Value("float32")}, [-1.0, -1.0], True),
    ],
)
def test_a_split_is_hidden_where_every_label_is_minus_one(
    tmp_path: Path, features: dict[str, Any], rows: list[float], labelled: bool
) -> None:
    (name,) = features
    assert written(tmp_path, features, *[{name: value} for value in rows])[1] is labelled


@each("feature", [Value("binary"), datasets.Image(), List(Value("binary")), {"part": Value("binary")}])
def test_a_column_of_neither_text_nor_numbers_is_named(feature: Any) -> None:
    with pytest.raises(DataError, match=r"column 'x(\.part)?' holds .*; only text, numbers and classes, or lists of"):
        converter("x", feature)


@given(st.lists(st.tuples(st.text(), st.integers(0, 1), st.floats(width=32)), max_size=5))
def test_what_is_written_is_read_back(rows: list[tuple[str, int, float]]) -> None:
    convert = {"a": converter("a", Value("string")), "b": converter("b", TAGS), "c": converter("c", Value("float32"))}
    for text, tag, number in rows:
        row = {name: convert[name](value) for name, value in zip("abc", (text, tag, number), strict=True)}
        expected = number if math.isfinite(number) else None
        assert json.loads(json.dumps(row, allow_nan=False)) == {"a": text, "b": TAGS.names[tag], "c": expected}
