"""Column files are read word for word, and what breaks them is named by file and line."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.datasets.columns_reader import read_columns
from trials.datasets.corpus import Sentence
from trials.errors import DataError
from trials.settings import Columns

DATA = Path(__file__).parents[4] / "shared" / "data"
DEFAULT = Columns()


def read(tmp_path: Path, content: str, columns: Columns = DEFAULT) -> list[tuple[str, str]]:
    """Words and tags of every sentence, separated by spaces."""
    (tmp_path / "x.txt").write_bytes(content.encode())
    return [(" ".join(s.forms), " ".join(s.tags)) for s in read_columns(tmp_path / "x.txt", columns)]


def refusal(tmp_path: Path, content: str, columns: Columns = DEFAULT) -> str:
    """The message, without the folder."""
    with pytest.raises(DataError) as error:
        read(tmp_path, content, columns)
    assert str(error.value).startswith(f"{tmp_path}/x.txt")
    return str(error.value).removeprefix(f"{tmp_path}/")


def test_sentences_are_read_in_order_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nWhy WRB O\n")
    first = Sentence(("EU", "rejects"), ("B-ORG", "O"), f"{path}:3", word_lines=True, document=f"{path}:1")
    second = Sentence(("Why",), ("O",), f"{path}:6", word_lines=True, document=f"{path}:1")
    assert read_columns(path, Columns()) == [first, second]


@each("gap", [" ", "\t", "\t\t", " \t "])
@each("end", ["\n", "\r\n", " \n"])
def test_columns_are_separated_by_spaces_or_tabs(tmp_path: Path, gap: str, end: str) -> None:
    content = f"a{gap}O\nb{gap}B-X\n\nc{gap}O\n".replace("\n", end)
    assert read(tmp_path, content) == [("a b", "O B-X"), ("c", "O")]


@each("word", ["\u00a0", "10\u00a0000", "a\u2028b", "a\u3000b", '"', "'", "#hash", "_", "🐻"])
def test_a_word_is_read_as_it_stands(tmp_path: Path, word: str) -> None:
    assert read(tmp_path, f"{word} O\n") == [(word, "O")]


@each(
    "columns, expected",
    [
        (Columns(), ("EU", "B-ORG")),
        (Columns(tags=1), ("EU", "NNP")),
        (Columns(tags=-2), ("EU", "B-NP")),
        (Columns(tokens=1, tags=0), ("NNP", "EU")),
    ],
)
def test_columns_are_chosen_by_position(tmp_path: Path, columns: Columns, expected: tuple[str, str]) -> None:
    assert read(tmp_path, "EU NNP B-NP B-ORG\n", columns) == [expected]


def test_blank_lines_may_repeat_or_hold_spaces_and_the_last_is_not_needed(tmp_path: Path) -> None:
    assert read(tmp_path, "\n \na O\n\t\n\n  \t\nb O") == [("a", "O"), ("b", "O")]


def test_a_document_start_is_no_sentence_and_ends_one(tmp_path: Path) -> None:
    assert read(tmp_path, "-DOCSTART-\na O\n-DOCSTART- O\nb O\n") == [("a", "O"), ("b", "O")]


@each("content", ["", "\n\n", "-DOCSTART- -X- O O\n\n", "# only a comment\n"])
def test_a_file_without_words_has_no_sentences(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content) == []


FORMS = st.text(st.characters(exclude_categories=["C", "Z", "M"]), min_size=1).filter(lambda form: form != "#")
SENTENCES = st.lists(st.lists(st.tuples(FORMS, st.sampled_from(["O", "B-X"])), min_size=1, max_size=4), max_size=4)


@given(SENTENCES, st.sampled_from([" ", "\t"]))
def test_what_is_written_is_read(sentences: list[list[tuple[str, str]]], gap: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        lines = ("".join(f"{form}{gap}{tag}\n" for form, tag in sentence) + "\n" for sentence in sentences)
        path.write_text("".join(lines), encoding="utf-8")
        found = [list(zip(s.forms, s.tags, strict=True)) for s in read_columns(path, Columns())]
        plain = path.read_text(encoding="utf-8").isascii()
    assert found == sentences or not plain  # a letter may have another spelling in NFC


# --- The word `#` and comments


def test_a_word_that_looks_like_a_comment_is_a_word(tmp_path: Path) -> None:
    content = "# O\n1 X\n\nissue X\n# B-X\n\n# B-X\n\n# X\n"
    assert read(tmp_path, content) == [("# 1", "O X"), ("issue #", "X B-X"), ("#", "B-X"), ("#", "X")]


def test_the_penn_treebanks_own_tag_of_the_word_is_no_comment(tmp_path: Path) -> None:
    assert read(tmp_path, "# #\n5 CD\n", Columns(tags=-1)) == [("# 5", "# CD")]


def test_comments_before_a_sentence_are_no_words(tmp_path: Path) -> None:
    content = "# id 7\n# text = a b\na _ _ O\n\n# id 9d1c\tdomain=en\n# O O O\nb _ _ O\n"
    assert read(tmp_path, content) == [("a", "O"), ("# b", "O O")]


def test_a_hash_and_a_tab_is_always_a_word(tmp_path: Path) -> None:
    assert read(tmp_path, "#\tSYM\n1\tNUM\n") == [("# 1", "SYM NUM")]


def test_a_comment_inside_a_sentence_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path, "a O\n# a comment here\nb O\n")
    rule = "a token line has 4 columns, most of the file's have 2. If it is a comment, put it before its sentence."
    assert message == f"x.txt:2: {rule} Fix this line or `columns`."


# --- What it refuses


def test_a_line_of_one_column_is_named(tmp_path: Path) -> None:
    rule = "a token line has one column, 'b', and needs a word and its tag. Fix this line or `columns`."
    assert refusal(tmp_path, "a O\nb\n") == f"x.txt:2: {rule}"
    assert refusal(tmp_path, "a O\nb\t\n") == f"x.txt:2: {rule}"


@each("line", ["\tO", " O", "\t\tO", " a O"])
def test_an_empty_word_is_named(tmp_path: Path, line: str) -> None:
    message = refusal(tmp_path, f"a O\n\nb O\n{line}\n")
    assert message.startswith("x.txt:4: the line starts with a space or tab, so its word is empty.")


@pytest.mark.parametrize(("line", "n"), [("b X", 2), ("New York X O", 4)])
def test_another_number_of_columns_is_named(tmp_path: Path, line: str, n: int) -> None:
    message = refusal(tmp_path, f"-DOCSTART- O\n\na X O\n\n{line}\n")
    assert message.startswith(f"x.txt:5: a token line has {n} columns, most of the file's have 3.")


@pytest.mark.parametrize(("key", "place"), [("tokens", 2), ("tags", 5), ("tags", -3)])
def test_a_column_beyond_the_last_is_named(tmp_path: Path, key: str, place: int) -> None:
    message = refusal(tmp_path, "a O\n", Columns.model_validate({key: place}))
    assert message.startswith(f"x.txt:1: a token line has 2 columns, and columns.{key} asks for number {place}.")


def test_a_word_that_is_its_own_tag_is_refused(tmp_path: Path) -> None:
    assert "columns.tokens and columns.tags are the same column" in refusal(tmp_path, "a O\n", Columns(tags=0))


def test_a_column_by_name_is_refused_as_there_is_no_header(tmp_path: Path) -> None:
    message = refusal(tmp_path, "a O\n", Columns(tags="ner"))
    assert message.startswith("x.txt: columns.tags: a column file has no header line, so 'ner' names no column.")


def test_a_key_that_a_column_file_has_no_use_for_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, "a O\n", Columns(label=1))
    assert message == "x.txt: columns.label: a column file has no such column. It takes tokens and tags."


def read_or_refused(path: Path) -> tuple[list[Sentence], str]:
    try:
        return read_columns(path, Columns()), ""
    except DataError as error:
        return [], str(error)


CELL = st.text("aO-# \t\u00a0\r", max_size=5)


@given(st.lists(CELL, max_size=6))
def test_whatever_stands_in_a_file_it_is_read_or_refused_by_name(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        path.write_bytes("\n".join(lines).encode())
        sentences, message = read_or_refused(path)
        assert all(len(s.forms) == len(s.tags) > 0 and all(s.forms) and all(s.tags) for s in sentences)
        assert message.startswith(f"{path}:") or not message


# --- Real corpora


@each(
    "name, sentences, words, tags",
    [
        ("conll2003pp/conllpp_train.txt", 14_041, 203_621, 9),
        ("conll2003pp/conllpp_dev.txt", 3_250, 51_362, 9),
        ("conll2003pp/conllpp_test.txt", 3_453, 46_435, 9),
        ("KazNERD/IOB2_valid.txt", 11_167, None, 50),
        ("KazNERD/IOB2_test.txt", 11_307, None, 50),
    ],
)
@pytest.mark.slow
def test_the_published_corpora_have_their_sizes(name: str, sentences: int, words: int | None, tags: int) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not at {DATA}")
    found = read_columns(DATA / name, Columns())
    assert len(found) == sentences
    assert words in (None, sum(len(sentence.forms) for sentence in found))
    assert len({tag for sentence in found for tag in sentence.tags}) == tags
