"""Every format is recognised by one row of the table and by no other, in whatever language; what has two is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.examples import each
from trials.corpora.corpus import CORPUS_FORMATS
from trials.corpora.layout import layout_of
from trials.corpora.recognisers import RECOGNISERS, matches, recognise
from trials.corpora.text_file import BINARY
from trials.errors import DataError, UnclearError
from trials.spec import Columns

Words = Sequence[tuple[str, str]]
NAMES = {
    "en": ("Ada", "sees", "Lima"),
    "ru": ("Анна", "видит", "Лиму"),
    "zh": ("安娜", "看见", "利马"),
    "ta": ("அனா", "காண்க", "லிமா"),
}


def sentences(language: str, n: int = 30) -> list[Words]:
    """Words with tags of spans."""
    who, does, where = NAMES[language]
    return [[(f"{who}{i}", "B-PER"), (does, "O"), (where, "B-LOC"), *([(".", "O")] * (i % 3))] for i in range(n)]


def texts(language: str, n: int = 40) -> list[tuple[str, str]]:
    who, does, where = NAMES[language]
    gap = "" if language == "zh" else " "
    return [(gap.join((who, does, where, str(i))), ("good", "bad")[i % 2]) for i in range(n)]


def lines(rows: Sequence[Words], line: Callable[[int, str, str], str], before: str = "") -> str:
    return "".join(before + "".join(line(i, *word) + "\n" for i, word in enumerate(row, 1)) + "\n" for row in rows)


def objects(language: str, **more: object) -> list[dict[str, object]]:
    return [{"text": text, "label": label, **more} for text, label in texts(language)]


def json_lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# A file of each format, by language: what recognises it, and how it is written.
FILES: dict[str, tuple[str, str, Callable[[str], str]]] = {
    "a treebank": ("CoNLL-U", "x.txt", lambda to: lines(
        sentences(to), lambda i, word, tag: f"{i}\t{word}\t_\t{tag[0]}\t_\t_\t0\troot\t_\t_", "# sent_id = 1\n")),
    "words and tags between tabs": ("columns", "x.tsv", lambda to: lines(
        sentences(to), lambda _, *word: "\t".join(word))),
    "words and tags between spaces": ("columns", "x.txt", lambda to: lines(
        sentences(to), lambda _, *word: " ".join(word))),
    "words with a part of speech, no blank lines": ("columns", "x.txt", lambda to: lines(
        sentences(to), lambda _, word, tag: f"{word} NN {tag}").replace("\n\n", "\n")),
    "long sentences of parts of speech": (
        "columns", "x.txt", lambda to: lines(
            [[*row] * 15 for row in sentences(to)], lambda _, w, tag: f"{w}\tN{tag[0]}")
    ),
    "words that come again, no blank lines": (
        "columns", "x.txt", lambda to: "".join(f"{w} N{t[0]}\n" for row in sentences(to) for w, t in row[1:3])
    ),
    "words with a space inside": ("columns", "x.txt", lambda to: lines(
        sentences(to), lambda i, word, tag: f"{word}{' Ltd' if i == 3 else ''}\t{tag}")),
    "texts and labels between tabs": ("TSV", "x.txt", lambda to: "".join(f"{t}\t{k}\n" for t, k in texts(to))),
    "texts below names": ("TSV", "x.tsv", lambda to: "text\tlabel\n" + "".join(f"{t}\t{k}\n" for t, k in texts(to))),
    "texts between commas": ("CSV", "x.csv", lambda to: "text,label\n" + "".join(f'"{t}, {t}",{k}\n' for t,
        k in texts(to))),
    "texts between semicolons": ("CSV", "x.csv", lambda to: "text;label\n" + "".join(f"{t};{k}\n" for t, k in texts(
        to))),
    "a separator named on the first line": ("CSV", "x.csv", lambda to: "sep=;\ntext;label\n" + "".join(
        f"{t};{k}\n" for t, k in texts(to))),
    "an object a line": ("JSON lines", "x.json", lambda to: json_lines(objects(to))),
    "objects of words": ("JSON lines", "x.jsonl", lambda to: json_lines(
        [{"words": [w for w, _ in row], "ner": [t for _, t in row]} for row in sentences(to)])),
    "an array on one line": ("JSON array", "x.json", lambda to: json.dumps(objects(to))),
    "an array on many lines": ("JSON array", "x.json", lambda to: json.dumps(objects(to), indent=1)),
    "an array inside of an object": ("JSON array", "x.json", lambda to: json.dumps({"version": 1, "data": objects(
        to)})),
    "what pandas writes by columns": ("JSON array", "x.json", lambda to: json.dumps(
        {"text": {str(i): t for i, (t, _) in enumerate(texts(to))},
         "label": {str(i): k for i, (_, k) in enumerate(texts(to))}})),
    "what pandas writes split": ("JSON array", "x.json", lambda to: json.dumps(
        {"columns": ["text", "label"], "index": [0], "data": [list(row) for row in texts(to)]})),
    "WebAnno's table": ("WebAnno TSV", "x.tsv", lambda to: "#FORMAT=WebAnno TSV 3.2\n\n" + lines(
        sentences(to), lambda i, word, tag: f"1-{i}\t0-3\t{word}\t{tag[2:] or '_'}\t", "#Text=x\n")),
    "a treebank with another column": ("CoNLL-U Plus", "x.cupt", lambda to: "# global.columns = ID FORM PARSEME:MWE\n"
                                       + lines(sentences(to), lambda i, word, tag: f"{i}\t{word}\t*")),
    "OntoNotes": ("CoNLL-2012", "x.v4_gold_conll", lambda to: "#begin document (bn/x); part 000\n" + lines(
        sentences(to), lambda i, word, tag: f"bn/x  0  {i - 1}  {word}  NN  (TOP*  -  -  -  -  "
        f"{'(' + tag[2:] + ')' if tag[2:] else '*'}  -") + "#end document\n"),
    "OntoNotes without a beginning": ("CoNLL-2012", "x.conll", lambda to: lines(
        sentences(to), lambda i, word, tag: f"bn/x 0 {i - 1} {word} NN (TOP* - - - - {'(X)' if tag[2:] else '*'} -")),
    "fastText's labels": ("fastText", "x.txt", lambda to: "".join(f"__label__{k} {t}\n" for t, k in texts(to))),
    "words with a slash": ("word/TAG", "x.txt", lambda to: "".join(
        " ".join(f"{word}/NN" for word, _ in row) + "\n" for row in sentences(to))),
    "spaCy's .iob": ("word/TAG", "x.iob", lambda to: "".join(
        " ".join(f"{word}|NN|{tag}" for word, tag in row) + "\n" for row in sentences(to))),
    "fastText's labels behind the texts": ("fastText", "x.ft", lambda to: "".join(
        f"{t} __label__{k}\n" for t, k in texts(to))),
    "words with the numbers of their sentences": (
        "a word a line with the numbers of sentences", "x.tsv", lambda to: "sent_id\ttoken\tner\n" + "".join(
            f"{i}\t{w}\t{t}\n" for i, row in enumerate(sentences(to)) for w, t in row)),
    "a title above a table": ("CSV below other lines", "x.csv", lambda to: "Export of May 4\n\ntext,label\n" + "".join(
        f"{t},{k}\n" for t, k in texts(to))),
    "what pandas writes by rows": ("JSON array", "x.json", lambda to: json.dumps(
        {f"r{i}": row for i, row in enumerate(objects(to))})),
    "a list for each column": ("JSON array", "x.json", lambda to: json.dumps(
        {"text": [f"{t} ." for t, _ in texts(to)], "label": [k for _, k in texts(to)]})),
    "ATIS": ("ATIS", "x.txt", lambda to: "".join(
        f"BOS {' '.join(w for w, _ in row)} EOS\tO {' '.join(t for _, t in row)} flight\n" for row in sentences(to))),
    "an export of Label Studio": ("Label Studio's JSON", "x.json", lambda to: json.dumps(
        [{"id": 1, "data": {"text": t}, "annotations": [{"result": []}]} for t, _ in texts(to)])),
    "Prodigy's spans": ("Prodigy's spans or choices", "x.jsonl", lambda to: json_lines(
        [{"text": t, "spans": [{"start": 0, "end": 2, "label": "X"}], "answer": "accept"} for t, _ in texts(to)])),
    "a page": ("XML or HTML", "x.txt", lambda to: f'<?xml version="1.0"?>\n<text>{texts(to)[0][0]}</text>\n'),
}  # fmt: skip


def written(folder: Path, kind: str, language: str) -> Path:
    path = folder / FILES[kind][1]
    path.write_text(FILES[kind][2](language), encoding="utf-8")
    return path


@each("language", NAMES)
@each("kind", FILES)
def test_a_file_is_recognised_by_one_row_and_by_no_other(kind: str, language: str, tmp_path: Path) -> None:
    assert [row.name for row in matches(written(tmp_path, kind, language))] == [FILES[kind][0]]


def test_every_row_recognises_a_file_of_these_and_reads_it_or_says_the_way_out(tmp_path: Path) -> None:
    assert {row.name for row in RECOGNISERS} == {name for name, _, _ in FILES.values()}
    for kind in FILES:
        row = next(row for row in RECOGNISERS if row.name == FILES[kind][0])
        path = written(tmp_path, kind, "en")
        if row.reads:
            layout = layout_of((str(path),), None, None, Columns(), (str(path),))
            items = CORPUS_FORMATS[layout.format](path, layout.columns, None)
            assert (layout.format, len(items) in (1, 30, 40)) == (row.reads, True), kind
            continue
        with pytest.raises(DataError) as refused:
            recognise(path)
        assert f"this is {row.name} ({row.shown_by}), which is not read. {row.way_out[:20]}" in str(refused.value)
        assert "\n" not in str(refused.value)


@each("suffix", BINARY)
def test_what_holds_no_text_is_refused_by_its_suffix(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"train{suffix}").write_bytes(b"PK\3\4")
    files = (str(tmp_path / f"train{suffix}"),)
    with pytest.raises(DataError, match=rf"train{suffix}: {suffix} files are not read\. \w+"):
        layout_of(files, None, None, None, files)


def test_what_shows_no_format_is_asked_with_its_first_lines_and_the_options_that_read_it(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("".join(f"a line of {i} words, and more of them {'so ' * (i % 5)}\n" for i in range(40)))
    with pytest.raises(UnclearError) as asked:
        layout_of((str(path),), None, None, None, (str(path),))
    assert "it is in no format that is recognised. Its first lines: 'a line of 0 words" in str(asked.value)
    assert not asked.value.options
    path.write_text("".join(f"word{i} N{i % 3}\n" for i in range(40)))  # words, or texts of one word
    with pytest.raises(UnclearError, match=r"Read are --format columns") as asked:
        layout_of((str(path),), None, None, None, (str(path),))
    (option,) = asked.value.options
    assert len(CORPUS_FORMATS[str(option["format"])](path, Columns(), None)[0].tags) == 40  # type: ignore[union-attr]
