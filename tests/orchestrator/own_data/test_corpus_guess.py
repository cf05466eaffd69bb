"""What a name of somebody's data is taken for: splits, format, columns and task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import CorpusGuess, guess_corpus
from tests.builders import write_treebank
from trials.draft import Lookup
from trials.errors import ConfigError, DataError, MissingError
from trials.sources.corpus_draft import DataDraft

TEXTS = [(f"a rather long review with the number {n}", "good" if n % 3 else "bad") for n in range(60)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def guess(name: str, **options: Any) -> CorpusGuess:
    return guess_corpus(ChooseOptions(data=name, **options), Lookup(offline=True))


def write(name: str, rows: Sequence[Sequence[str]], separator: str = "\t") -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    return name


def columns(found: CorpusGuess) -> dict[str, Any]:
    return {key: value for key, value in found.data["columns"].items() if value is not None}


# --- Splits


def test_a_bundled_sample_needs_no_guess_but_the_task() -> None:
    found = guess("UD_Naija-NSC-sample")
    assert (dict(found.data), found.task) == ({"bundled": "UD_Naija-NSC-sample"}, "pos")
    assert found.lines[0].endswith("800 sentences for training, 500 dev of 40 documents, 500 test of 10 documents")


def test_a_folder_without_dev_holds_a_tenth_of_train_out_and_says_so() -> None:
    (write_treebank(Path("bank"), train=300) / "dev.conllu").unlink()
    found = guess("bank")
    assert found.data == {"folder": "bank", "held_out": 0.1}
    assert found.lines[1].startswith("no dev split: 10% of train serve as dev, the same on every machine")


def test_a_single_file_is_the_train_split() -> None:
    (write_treebank(Path("bank"), train=300) / "train.conllu").rename("all words.conllu")
    found = guess("all words.conllu")
    assert found.data == {"train": ["all words.conllu"], "held_out": 0.1, "name": "all-words"}


def test_what_is_not_there_is_missing() -> None:
    Path("reviews.csv").touch()
    with pytest.raises(
        MissingError, match=r"revews.csv: no such file or folder\. Did you mean 'reviews.csv'\? Give one"
    ):
        guess("revews.csv")


def test_a_broken_folder_is_reported_as_it_is_and_not_as_one_without_dev() -> None:
    Path("empty").mkdir()
    with pytest.raises(DataError, match="needs one file with 'train' in its name"):
        guess("empty")


# --- Columns

TABLES: dict[str, tuple[Sequence[Sequence[str]], dict[str, Any]]] = {
    "a header with known names": ([("id", "sentence", "label"), *((str(i), *r) for i, r in enumerate(TEXTS))],
                                  {"text": "sentence", "label": "label"}),
    "known names in capitals": ([("Review", "Sentiment"), *TEXTS], {"text": "Review", "label": "Sentiment"}),
    "a header with other names": ([("note", "n", "stars"), *((t, str(i), "5" if k == "good" else "1")
                                                             for i, (t, k) in enumerate(TEXTS))],
                                  {"text": "note", "label": "stars"}),
    "no header": (TEXTS, {"text": 0, "label": 1}),
    "no header, label first": ([(label, text) for text, label in TEXTS], {"text": 1, "label": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_of_a_table_are_found_by_name_or_by_what_they_hold(name: str) -> None:
    rows, expected = TABLES[name]
    found = guess(write("reviews.tsv", rows))
    assert (columns(found), found.task) == (expected, "classification")


def test_words_and_tags_in_lists_are_sentences() -> None:
    rows = [{"tokens": ["Ann", "sleeps", str(n)], "ner_tags": ["B-PER", "O", "O"]} for n in range(60)]
    Path("names.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = guess("names.jsonl")
    assert (columns(found), found.task) == ({"tokens": "tokens", "tags": "ner_tags"}, "ner")


def test_columns_that_nobody_can_tell_apart_are_asked_for() -> None:
    rows = [("note", "mood", "place"), *((t, k, "here" if n % 2 else "there") for n, (t, k) in enumerate(TEXTS))]
    with pytest.raises(
        ConfigError, match=r"Several could be labels: mood, place\. Say it with --text note --label mood"
    ):
        guess(write("reviews.tsv", rows))


def test_without_a_header_line_the_numbers_to_give_are_said() -> None:
    rows = [(f"src{n % 3}", k, "" if n % 2 else "*", t) for n, (t, k) in enumerate(TEXTS)]
    said = r"no header line: use --text 3 --label 1, or other numbers from 0 to 3; several could be labels: 0, 1\."
    with pytest.raises(ConfigError, match=said):
        guess(write("reviews.tsv", rows))


def test_a_name_that_the_first_row_lacks_is_answered_with_numbers() -> None:
    said = r"as in --text 0 --label 1 \(in a sweep file `columns: \{text: 0, label: 1\}`\)"
    with pytest.raises(ConfigError, match=said):
        guess(write("reviews.tsv", TEXTS), text="body", label="mood")


def test_numbers_of_a_table_with_a_header_line_are_its_names() -> None:
    found = guess(write("reviews.tsv", [("label", "Sentence"), *((k, t) for t, k in TEXTS)]), text="1", label="0")
    assert columns(found) == {"text": "Sentence", "label": "label"}


@pytest.mark.parametrize("separator", ["\t", ","])
def test_a_sweep_reads_what_was_guessed_of_a_table_without_a_header(separator: str) -> None:
    name = write("reviews.tsv" if separator == "\t" else "reviews.csv", TEXTS, separator)
    found = guess(name, text="0", label="1")
    data = Lookup(offline=True).data(DataDraft.model_validate(found.data), found.task)
    assert sum(data.sizes or ()) == len(TEXTS)
    assert found.lines[-1] == "columns text = 0, label = 1; no header line (--text and --label for others)"


def test_on_a_terminal_a_person_says_which_column_it_is() -> None:
    answers = iter(["note", "place"])
    rows = [("note", "mood", "place"), *((t, k, "here" if n % 2 else "there") for n, (t, k) in enumerate(TEXTS))]
    name = write("reviews.tsv", [(*row, "7") if row[0] != "note" else (*row, "n") for row in rows])
    assert columns(guess(name, ask=lambda _question, _choices: next(answers))) == {"text": "note", "label": "place"}


DOCUMENTED = [("text", "label", "Doc_ID"), *((t, k, str(n // 7)) for n, (t, k) in enumerate(TEXTS))]


@pytest.mark.parametrize("given", [{}, {"text": "text", "label": "label"}, {"document": "2"}], ids=str)
def test_a_column_that_clearly_names_documents_is_taken_and_said(given: dict[str, str]) -> None:
    found = guess(write("reviews.tsv", DOCUMENTED), **given)
    assert columns(found) == {"text": "text", "label": "label", "document": "Doc_ID"}
    assert any("Doc_ID" in line for line in found.lines)
    assert found.spec.sizes is not None
    assert found.spec.documents is not None
    assert 1 < found.spec.documents[1] < found.spec.sizes[1]


def test_documents_are_left_out_where_somebody_says_so_or_another_file_lacks_the_column() -> None:
    assert "document" not in columns(guess(write("reviews.tsv", DOCUMENTED), document="none"))
    Path("split").mkdir()
    write("split/train.tsv", DOCUMENTED)
    write("split/dev.tsv", [row[:2] for row in DOCUMENTED])
    assert "document" not in columns(guess("split"))


@pytest.mark.parametrize("value", ["{n}", "always the same"])
def test_a_column_with_a_document_a_row_or_one_for_all_names_none(value: str) -> None:
    rows = [("text", "label", "document"), *((t, k, value.format(n=n)) for n, (t, k) in enumerate(TEXTS))]
    assert "document" not in columns(guess(write("reviews.tsv", rows)))


def test_a_column_of_documents_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"columns\.document \(--document\): unknown 'thread'"):
        guess(write("reviews.tsv", DOCUMENTED), document="thread")
