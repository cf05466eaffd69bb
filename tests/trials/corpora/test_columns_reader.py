"""Column files and CoNLL-U are read word for word, and what breaks them is named by file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples import each
from trials.corpora.corpus import Sentence
from trials.corpora.formats.columns_reader import read_columns
from trials.corpora.formats.conllu_reader import read_conllu
from trials.errors import DataError
from trials.spec import Columns

DEFAULT = Columns()
READERS: dict[str, Callable[[Path, Columns], list[Sentence]]] = {"columns": read_columns, "conllu": read_conllu}
Words = list[tuple[str, str]]  # of every sentence its words and its tags, each separated by `|`


def read(tmp_path: Path, reader: str, content: str, columns: Columns = DEFAULT) -> Words:
    (tmp_path / "x").write_bytes(content.encode())
    return [("|".join(s.forms), "|".join(s.tags)) for s in READERS[reader](tmp_path / "x", columns)]


def line(number: str, form: str, tag: str) -> str:
    """A line of CoNLL-U."""
    return f"{number}\t{form}\t_\t{tag}" + "\t_" * 6 + "\n"


def test_sentences_are_read_in_order_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nWhy WRB O\n")
    first = Sentence(("EU", "rejects"), ("B-ORG", "O"), f"{path}:3", word_lines=True, document=f"{path}:1")
    second = Sentence(("Why",), ("O",), f"{path}:6", word_lines=True, document=f"{path}:1")
    assert read_columns(path, Columns()) == [first, second]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_sentences_place_in_a_treebank_is_the_line_of_its_first_word(tmp_path: Path, end: str) -> None:
    first = "# text = I don't" + "\n" + line("0.1", "so", "ADV") + line("1", "I", "PRON")
    second = "\n\n" + line("1-2", "don't", "_") + line("1", "do", "AUX") + line("2", "n't", "PART")
    (tmp_path / "x").write_bytes((first + second).replace("\n", end).encode())
    expected = [
        Sentence(("I",), ("PRON",), f"{tmp_path}/x:3"),
        Sentence(("do", "n't"), ("AUX", "PART"), f"{tmp_path}/x:7"),
    ]
    assert read_conllu(tmp_path / "x", Columns()) == expected


DOG = "1\tdogs\tdog\tNOUN\tNNS\t_\t_\t_\t_\t_\n"


@each(
    "reader, columns, content, expected",
    [
        ("columns", Columns(), "EU NNP B-NP B-ORG\n", ("EU", "B-ORG")),
        ("columns", Columns(tags=1), "EU NNP B-NP B-ORG\n", ("EU", "NNP")),
        ("columns", Columns(tags=-2), "EU NNP B-NP B-ORG\n", ("EU", "B-NP")),
        ("columns", Columns(tokens=1, tags=0), "EU NNP B-NP B-ORG\n", ("NNP", "EU")),
        ("columns", Columns(tags=-1), "# #\n5 CD\n", ("#|5", "#|CD")),  # the Penn Treebank's own tag of the word
        *(("conllu", Columns(tags=tags), DOG, ("dogs", tag)) for tags, tag in ((None, "NOUN"), ("xpos", "NNS"))),
        ("conllu", Columns(tags="upos"), DOG, ("dogs", "NOUN")),
    ],
)
def test_columns_are_chosen(
    tmp_path: Path, reader: str, columns: Columns, content: str, expected: tuple[str, str]
) -> None:
    assert read(tmp_path, reader, content, columns) == [expected]


ODD_WORDS = ("\u00a0", "10\u00a0000", "a\u2028b", "a\u3000b", '"', "'", "#hash", "_", "🐻")


@each(
    "content, expected",
    [
        *(
            (f"a{gap}O\nb{gap}B-X\n\nc{gap}O\n".replace("\n", end), [("a|b", "O|B-X"), ("c", "O")])
            for gap in (" ", "\t", "\t\t", " \t ")
            for end in ("\n", "\r\n", " \n")
        ),
        *((f"{word} O\n", [(word, "O")]) for word in ODD_WORDS),
        ("\n \na O\n\t\n\n  \t\nb O", [("a", "O"), ("b", "O")]),  # blank lines repeat or hold spaces
        ("-DOCSTART-\na O\n-DOCSTART- O\nb O\n", [("a", "O"), ("b", "O")]),
        *((content, []) for content in ("", "\n\n", "-DOCSTART- -X- O O\n\n", "# only a comment\n")),
        (
            "# O\n1 X\n\nissue X\n# B-X\n\n# B-X\n\n# X\n",
            [("#|1", "O|X"), ("issue|#", "X|B-X"), ("#", "B-X"), ("#", "X")],
        ),
        ("# id 7\n# text = a b\na _ _ O\n\n# id 9d1c\tdomain=en\n# O O O\nb _ _ O\n", [("a", "O"), ("#|b", "O|O")]),
        ("#\tSYM\n1\tNUM\n", [("#|1", "SYM|NUM")]),  # with a tab it is always a word
    ],
)
def test_a_column_file_holds_its_words_and_neither_comments_nor_document_starts(
    tmp_path: Path, content: str, expected: Words
) -> None:
    assert read(tmp_path, "columns", content) == expected


@each(
    "content, expected",
    [
        (line("1-2", "don't", "_") + line("1", "do", "AUX") + line("2.1", "go", "VERB"), [("do", "AUX")]),
        ("# sent_id = 1\n# text = # a = b\n#\n" + line("1", "#", "SYM") + "\n", [("#", "SYM")]),
        (
            f"\n\n{line('1', 'a', 'DET')}\n\n \n{line('1', 'b', 'NOUN')}".replace("\n", "\r\n"),
            [("a", "DET"), ("b", "NOUN")],
        ),
        ("", []),
        *((line("1", form, "X"), [(form, "X")]) for form in ("New York", "10 000", "é", "#", *ODD_WORDS)),
        (line("1", "cafe\u0301", "NOUN"), [("caf\u00e9", "NOUN")]),
        ("1\ta\t_\tDET\t_\t_\t_\t_\t_\tGloss=x  y\n", [("a", "DET")]),  # two spaces behind what is read do no harm
    ],
)
def test_a_treebank_holds_words_with_an_integer_id(tmp_path: Path, content: str, expected: Words) -> None:
    assert read(tmp_path, "conllu", content) == expected


A, START = line("1", "a", "DET"), "the sentence that starts here"


@each(
    "reader, content, message",
    [
        (
            "columns",
            "a O\n# a comment here\nb O\n",
            "2: a token line has 4 columns, most of the file's have 2. If it is a",
        ),
        *(("columns", f"a O\n{row}\n", "2: a token line has one column, 'b', and needs") for row in ("b", "b\t")),
        *(("columns", f"a O\n\nb O\n{row}\n", "4: the line starts with a space") for row in ("\tO", " O", " a O")),
        ("columns", "-DOCSTART- O\n\na X O\n\nb X\n", "5: a token line has 2 columns, most of the file's have 3."),
        ("columns", "a X O\nNew York X O\nb X O\n", "2: a token line has 4 columns, most of the file's have 3."),
        *(
            ("conllu", f"# text\n{A}2\tb\t_\tNOUN{tail}\n", f"3: a token line has {n} columns, CoNLL-U needs 10")
            for tail, n in (("", 4), ("\t_" * 5, 9), ("\t_" * 7, 11))
        ),
        ("conllu", "1 a _ DET _ _ _ _ _ _\n", "1: a token line has 1 columns"),
        *(
            ("conllu", A + line(n, "b", "X"), f"2: the id is {n!r}; CoNLL-U needs")
            for n in ("", "x", "_", "-", "1a", "1-2-3", "3-2", "01", "1.2.3", "\u00b2")
        ),
        ("conllu", A + line("2", "New  York", "X"), "2: a column holds two spaces in a row. Replace them by one."),
        *(("conllu", f"# text\n{A}{line('2', 'b', tag)}", f"1: word 2 of {START} has no UPOS") for tag in ("_", "")),
        *(
            ("conllu", f"{A}\n{content}", f"3: {START} has no words. Delete it.")
            for content in ("# only a comment\n", line("1-2", "don't", "_"), line("0.1", "go", "VERB"))
        ),
    ],
)
def test_what_breaks_a_file_is_named_by_its_line(tmp_path: Path, reader: str, content: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, reader, content)
    assert str(error.value).startswith(f"{tmp_path}/x:{message}")


@each(
    "reader, key, value, message",
    [
        *(
            ("columns", key, n, f":1: a token line has 2 columns, and columns.{key} asks for number {n}.")
            for key, n in (("tokens", 2), ("tags", 5), ("tags", -3))
        ),
        ("columns", "tags", 0, ":1: columns.tokens and columns.tags are the same column."),
        ("columns", "tags", "ner", ": columns.tags: a column file has no header line, so 'ner' names no column."),
        ("columns", "label", 1, ": columns.label: a column file has no such column. It takes tokens and tags."),
        ("conllu", "text", 1, ": columns.text: a CoNLL-U file has no such column. It takes tags."),
        *(("conllu", "tags", tags, f": columns.tags: unknown '{tags}'") for tags in ("lemma", "upso", 3)),
        ("conllu", "tags", "xpos", f":1: word 1 of {START} has no XPOS tag"),
    ],
)
def test_columns_that_are_not_there_are_named(
    tmp_path: Path, reader: str, key: str, value: str | int, message: str
) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, reader, A if reader == "conllu" else "a O\n", Columns.model_validate({key: value}))
    assert str(error.value).startswith(f"{tmp_path}/x{message}")
