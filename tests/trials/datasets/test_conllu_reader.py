"""CoNLL-U is read word for word, and what breaks it is named by file and line."""

from __future__ import annotations

import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import write_conllu
from tests.examples import each
from trials.datasets.columns_reader import read_conllu
from trials.datasets.corpus import SPLITS, Sentence
from trials.errors import DataError
from trials.settings import Columns
from trials.starter import BUNDLED_TREEBANKS

TREEBANK = Path(__file__).parents[4] / "shared" / "data" / "UD_English-EWT"
TAIL = "\t_\t_\t_\t_\t_\t_"


def line(number: str, form: str, tag: str) -> str:
    return f"{number}\t{form}\t_\t{tag}{TAIL}\n"


def read(tmp_path: Path, content: str | bytes, tags: str | int | None = None) -> list[Sentence]:
    """The sentences, without their places."""
    (tmp_path / "x.conllu").write_bytes(content.encode() if isinstance(content, str) else content)
    return [s._replace(place="") for s in read_conllu(tmp_path / "x.conllu", Columns(tags=tags))]


def refusal(tmp_path: Path, content: str | bytes) -> str:
    """The message, without the folder."""
    with pytest.raises(DataError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(str(tmp_path))
    return str(error.value).removeprefix(f"{tmp_path}/")


def test_sentences_are_read_in_order(tmp_path: Path) -> None:
    path = write_conllu(tmp_path / "x.conllu", [[("Dogs", "NOUN"), ("bark", "VERB")], [("Why", "ADV")]])
    expected = [Sentence(("Dogs", "bark"), ("NOUN", "VERB"), f"{path}:1"), Sentence(("Why",), ("ADV",), f"{path}:4")]
    assert read_conllu(path, Columns()) == expected


def test_only_words_with_an_integer_id_are_read(tmp_path: Path) -> None:
    content = line("1-2", "don't", "_") + line("1", "do", "AUX") + line("2", "n't", "PART") + line("2.1", "go", "VERB")
    assert read(tmp_path, content) == [Sentence(("do", "n't"), ("AUX", "PART"))]


def test_comments_are_no_words(tmp_path: Path) -> None:
    content = "# sent_id = 1\n# text = # a = b\n#\n" + line("1", "#", "SYM") + "\n"
    assert read(tmp_path, content) == [Sentence(("#",), ("SYM",))]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_may_end_as_on_windows(tmp_path: Path, end: str) -> None:
    content = (line("1", "a", "DET") + "\n" + line("1", "b", "NOUN") + "\n").replace("\n", end)
    assert read(tmp_path, content.encode()) == [Sentence(("a",), ("DET",)), Sentence(("b",), ("NOUN",))]


def test_a_last_sentence_needs_no_blank_line_and_blank_lines_may_repeat(tmp_path: Path) -> None:
    assert len(read(tmp_path, "\n\n" + line("1", "a", "DET") + "\n\n \n" + line("1", "b", "NOUN"))) == 2


def test_an_empty_file_has_no_sentences(tmp_path: Path) -> None:
    assert read(tmp_path, "") == []


@each("form", ["_", "New York", "New  York", "10 000", "\u00a0", "a\u2028b", "é", "🐻", '"', "#"])
def test_a_form_is_read_as_it_stands(tmp_path: Path, form: str) -> None:
    assert read(tmp_path, line("1", form, "X")) == [Sentence((form,), ("X",))]


FORMS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@given(st.lists(st.lists(st.tuples(FORMS, st.sampled_from(["NOUN", "VERB"])), min_size=1, max_size=4), max_size=4))
def test_what_is_written_is_read(sentences: list[list[tuple[str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read_conllu(write_conllu(Path(folder) / "x.conllu", sentences), Columns())
    composed = [[(unicodedata.normalize("NFC", form), tag) for form, tag in sentence] for sentence in sentences]
    assert [list(zip(sentence.forms, sentence.tags, strict=True)) for sentence in found] == composed


def test_a_decomposed_letter_spells_the_same_word_as_a_composed_one(tmp_path: Path) -> None:
    assert read(tmp_path, line("1", "cafe\u0301", "NOUN")) == read(tmp_path, line("1", "caf\u00e9", "NOUN"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_sentences_place_is_the_line_of_its_first_word(tmp_path: Path, end: str) -> None:
    first = "# text = I don't" + "\n" + line("0.1", "so", "ADV") + line("1", "I", "PRON")
    second = "\n\n" + line("1-2", "don't", "_") + line("1", "do", "AUX") + line("2", "n't", "PART")
    (tmp_path / "x.conllu").write_bytes((first + second).replace("\n", end).encode())
    places = [sentence.place for sentence in read_conllu(tmp_path / "x.conllu", Columns())]
    assert places == [f"{tmp_path / 'x.conllu'}:{number}" for number in (3, 7)]


@pytest.mark.parametrize(("tags", "expected"), [(None, "NOUN"), ("upos", "NOUN"), ("xpos", "NNS")])
def test_the_tags_are_universal_or_the_languages_own(tmp_path: Path, tags: str | None, expected: str) -> None:
    content = "1\tdogs\tdog\tNOUN\tNNS\t_\t_\t_\t_\t_\n"
    assert read(tmp_path, content, tags) == [Sentence(("dogs",), (expected,))]


# --- What it refuses


@pytest.mark.parametrize(("tail", "n"), [("", 4), ("\t_" * 5, 9), ("\t_" * 7, 11)])
def test_a_line_of_too_few_or_many_columns_is_named(tmp_path: Path, tail: str, n: int) -> None:
    content = "# text\n" + line("1", "a", "DET") + f"2\tb\t_\tNOUN{tail}\n"
    rule = f"a token line has {n} columns, CoNLL-U needs 10, separated by tabs. Fix or delete this line."
    assert refusal(tmp_path, content) == f"x.conllu:3: {rule}"


def test_spaces_in_place_of_tabs_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "1 a _ DET _ _ _ _ _ _\n").startswith("x.conllu:1: a token line has 1 columns")


def test_two_spaces_in_a_later_column_do_no_harm(tmp_path: Path) -> None:
    assert read(tmp_path, "1\ta\t_\tDET\t_\t_\t_\t_\t_\tGloss=x  y\n") == [Sentence(("a",), ("DET",))]


@each("number", ["", "x", "_", "-", "1a", "one", "1-2-3", "3-2", "01", "1.2.3", "\u00b2"])
def test_a_bad_id_is_named_with_its_line(tmp_path: Path, number: str) -> None:
    message = refusal(tmp_path, line("1", "a", "DET") + line(number, "b", "NOUN"))
    assert message.startswith(f"x.conllu:2: the id is {number!r}; CoNLL-U needs an integer, a range like 3-4")
    assert message.endswith("Fix or delete this line.")


@pytest.mark.parametrize("tag", ["_", ""])
def test_a_word_without_tag_is_named(tmp_path: Path, tag: str) -> None:
    message = refusal(tmp_path, "# text\n" + line("1", "a", "DET") + line("2", "b", tag))
    assert message == "x.conllu:1: word 2 of the sentence that starts here has no UPOS tag."


def test_a_word_without_a_tag_of_the_languages_own_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.conllu:1: word 1 of the sentence that starts here has no XPOS tag"):
        read(tmp_path, line("1", "a", "DET"), "xpos")


@pytest.mark.parametrize("tags", ["lemma", "upso", 3])
def test_another_column_of_tags_is_refused(tmp_path: Path, tags: str | int) -> None:
    with pytest.raises(DataError, match=rf"columns\.tags: unknown '{tags}'.* Known: upos, xpos\."):
        read(tmp_path, line("1", "a", "DET"), tags)


def test_a_key_that_a_treebank_has_no_use_for_is_refused(tmp_path: Path) -> None:
    path = write_conllu(tmp_path / "x.conllu", [[("a", "DET")]])
    with pytest.raises(DataError) as error:
        read_conllu(path, Columns(text=1))
    assert str(error.value) == f"{path}: columns.text: a CoNLL-U file has no such column. It takes tags."


@pytest.mark.parametrize("content", ["# only a comment\n", line("1-2", "don't", "_"), line("0.1", "go", "VERB")])
def test_a_sentence_without_words_is_named(tmp_path: Path, content: str) -> None:
    message = refusal(tmp_path, line("1", "a", "DET") + "\n" + content)
    assert message == "x.conllu:3: the sentence that starts here has no words. Delete it."


def read_or_refused(path: Path) -> tuple[list[Sentence], str]:
    try:
        return read_conllu(path, Columns()), ""
    except DataError as error:
        return [], str(error)


CELL = st.text("01-._ #a\u00b2\r\x0b\x85=", max_size=4)


@given(st.lists(st.lists(CELL, min_size=10, max_size=10).map("\t".join) | CELL, max_size=3))
@example(["#"])
@example(["# =", "1\ta\t_\tX\t_\t_\t_\t_\t_\t_"])
def test_whatever_stands_in_a_file_it_is_read_or_refused_by_name(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.conllu").write_bytes("\n".join(lines).encode())
        sentences, message = read_or_refused(Path(folder) / "x.conllu")
        assert all(len(sentence.forms) == len(sentence.tags) > 0 for sentence in sentences)
        assert message.startswith(folder) or not message


# --- Real treebanks


@pytest.mark.parametrize("name", BUNDLED_TREEBANKS)
def test_the_bundled_samples_are_read_whole(name: str) -> None:
    for split in SPLITS[:3]:
        path = BUNDLED_TREEBANKS[name] / f"{split}.conllu"
        ids = [row.split("\t")[0] for row in path.read_text(encoding="utf-8").splitlines() if "\t" in row]
        sentences = read_conllu(path, Columns())
        assert sum(len(sentence.forms) for sentence in sentences) == sum(number.isdigit() for number in ids)
        assert len(sentences) == ids.count("1")


@pytest.mark.skipif(not TREEBANK.is_dir(), reason=f"UD_English-EWT is not at {TREEBANK}")
@pytest.mark.slow
def test_the_english_treebank_has_the_published_sizes() -> None:
    sentences = {split: read_conllu(TREEBANK / f"en_ewt-ud-{split}.conllu", Columns()) for split in SPLITS[:3]}
    assert {split: len(found) for split, found in sentences.items()} == {"train": 12_544, "dev": 2_001, "test": 2_077}
    # 25,510 lines of dev, less 359 ranges and 4 empty nodes
    assert sum(len(sentence.forms) for sentence in sentences["dev"]) == 25_147
    assert len({tag for sentence in sentences["train"] for tag in sentence.tags}) == 17
