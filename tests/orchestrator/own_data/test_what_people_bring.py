"""Exports, odd tables and odd folders that people bring: each is read as what it is, or refused in one line by name."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import CorpusGuess, guess_corpus
from tests.orchestrator.own_data.test_folder_kinds import (
    NER,
    REVIEW,
    Kind,
    is_what_it_is,
    json_lines,
    lines,
    ner,
    of_texts,
    of_words,
    refused,
    table,
    texts,
    train,
    with_splits,
    written,
)
from trials.corpora.corpus import Sentence, Text
from trials.draft import Lookup
from trials.errors import PermafrostError
from trials.spec import DataSpec
from trials.tasks.task_corpus import read_corpus


def csv_text(rows: Sequence[Sequence[object]], **how: Any) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n", **how).writerows(rows)
    return target.getvalue()


def printed(make: Callable[[list[str]], str], n: int = 40) -> str:
    """Words and tags as lists that are printed into the cells of a CSV file."""
    rows = [[make([word for word, _ in row]), make([tag for _, tag in row])] for row in ner(n)]
    return csv_text([("words", "ner_tags"), *rows])


def texts_of(*header: str, n: int = 60, **more: Sequence[object]) -> str:
    """A CSV file of texts, labels and further columns, whose values come in turns."""
    rows = [(*row, *(values[i % len(values)] for values in more.values())) for i, row in enumerate(texts(n))]
    return csv_text([(*header, *more), *rows])


def entailed(none: str, labels: Sequence[str], n: int = 60) -> str:
    rows = [(f"a dog {i}", f"an animal {i}", labels[i % len(labels)] if i % 15 else none) for i in range(n)]
    return table(rows, ("premise", "hypothesis", "gold_label"))


SPLIT_ROWS = ["train"] * 6 + ["validation", "test"]
COLUMNS = {"tokens": "words", "tags": "ner_tags"}
TEXT = {"layout": "csv", "text": "text"}
STANDOFF = {
    f"{split}/a{i}.{end}": "Ada sees Lima.\n" for split in ("train", "dev") for i in (1, 2) for end in ("txt", "ann")
}
DOCUMENTS = {
    f"{split}/d{i}.txt": lines(ner(5, 10 * i + start))
    for split, start in (("train", 0), ("val", 200))
    for i in range(4)
}
PARALLEL = [[word for word, _ in row] for row in ner(30)], [[tag for _, tag in row] for row in ner(30)]
SPANS = [{"text": "Ada sees Lima", "label": [[0, 3, "PER"]]}] * 30
KINDS: dict[str, Kind] = {
    # --- Lists printed into cells, tags of a sentence in one cell
    **{
        f"lists as {name} prints them": of_words(train(printed(make), ".csv"), 40, layout="csv", columns=COLUMNS)
        for name, make in (("Python", str), ("JSON", json.dumps),
                           ("numpy", lambda words: f"[{' '.join(map(repr, words))}]"))
    },
    "numbers printed in lists": refused(
        train(csv_text([("tokens", "ner_tags"), *[("['Ada', 'naps']", f"[1, {i % 2}]") for i in range(40)]]), ".csv"),
        "the tags in 'ner_tags' are numbers, 0 to 1, which say no types",
    ),
    "tags of a sentence in one cell": of_words(
        train(csv_text([("satz", "etiketten"), *[[" ".join(part) for part in zip(*row, strict=True)]
                                                for row in ner(40)]]), ".csv"),
        40, layout="csv", columns={"tokens": "satz", "tags": "etiketten"},
    ),
    "lists of other names": of_words(
        train(json_lines({"id": i, "mots": [w for w, _ in row], "etiquettes": [t for _, t in row]}
                         for i, row in enumerate(ner(40))), ".jsonl"),
        40, layout="jsonl", columns={"tokens": "mots", "tags": "etiquettes"},
    ),
    # --- Folders
    "brat's annotations": refused(STANDOFF, "this is brat's standoff", "anntoconll.py"),
    "a column file for each document, in a folder for each split": of_words(DOCUMENTS, 20, 20, 0, notes=["4 files"]),
    "a column file for each document, in a folder for each source": of_words(
        {name.replace("val/", "web/d").replace("train/", "press/d"): text for name, text in DOCUMENTS.items()}, 40,
        notes=["no dev split: 10% of 8 files in data serve as dev"],
    ),
    "texts and tags line by line": refused(
        {f"{split}/{name}": "".join(" ".join(row) + "\n" for row in rows)
         for split in ("train", "dev") for name, rows in zip(("in.txt", "out.txt"), PARALLEL, strict=True)},
        "out.txt holds the labels of the lines of in.txt: parallel files",
            "paste train/in.txt train/out.txt > train.tsv",
    ),
    "two splits of sentences of one length": of_words(
        {"train.txt": lines(ner(40), " "), "dev.txt": lines(ner(40, 100), " ")}, 40, 40, 0
    ),
    "train, dev, and both in one": of_words(
        {**NER, "train_dev.tsv": NER["train.tsv"] + NER["dev.tsv"]}, 40, 8, 6,
            notes=["train_dev.tsv looks like a split"]
    ),
    "train and dev in one, which is all there is": of_texts(
        {"trainval.csv": "", "train_val.csv": texts_of("text", "label")}, 60, **TEXT
    ),
    "a sheet": refused({"train.xlsx": "PK"}, "train.xlsx: .xlsx files are not read. Save the sheet as CSV"),
    "a packed file": refused({"train.csv.zip": "PK"}, "train.csv.zip: .zip files are not read. Unpack it: `unzip"),
    "splits in a column": of_texts(
        {"all.csv": texts_of("text", "label", n=80, partition=SPLIT_ROWS)}, 60, 10, 10,
        text="text", layout="jsonl", notes=["column 'partition' says the split: 60 train, 10 dev, 10 test"],
    ),
    "splits in a column without a name": of_texts(
        {"all.tsv": "".join(f"{t}\t{k}\t{SPLIT_ROWS[i % 8].title()}\n" for i, (t, k) in enumerate(texts(80)))},
        60, 10, 10, text="0", label="1", layout="jsonl", notes=["column '2' says the split"],
    ),
    "a suffix that says no format": refused(
        train("".join(f"__label__{k} {t}\n" for t, k in texts(40)), ".ft"), "train.ft: this is fastText", "sed -E"
    ),
    "a folder for train, a file for dev": of_texts(
        {"train/all.csv": texts_of("text", "label"), "dev.csv": texts_of("text", "label", n=20)}, 60, 20, 0, **TEXT
    ),
    "words with the numbers of their sentences": refused(
        train("".join(f"{i}\t{w}\t{t}\n" for i, row in enumerate(ner(40)) for w, t in row)),
        "a word a line with the numbers of sentences", "train.tsv > OTHER/train.tsv",
    ),
    "tags before words": refused(
        train(lines([[(t, "0", w) for w, t in row] for row in ner(40)]), ".conll"),
        "which column holds the words? The first one has tags of spans. Read are --words 2 --tags 0",
    ),
    # --- Scripts without spaces, tabs alone
    "texts of a script without spaces": of_texts(
        with_splits(".txt", lambda n, start: "".join(f"电影很好看{i}\t{i % 2}\n" for i in range(start, start + n))),
        40, 8, 6, text=0, label=1,
    ),
    "types with spaces between tabs": of_words(
        train(lines([[(w, t.replace("PER", "Old King")) for w, t in row] for row in ner(40)]), ".txt"), 40,
        notes=["only tabs separate the columns"],
    ),
    "a tab in front of every line": of_words(
        train("".join(f"\t{line}\n" if line else "\n" for line in lines(ner(40), " ").split("\n")), ".txt"), 40,
        notes=["each line begins with a space or tab, which is left out"],
    ),
    # --- Dialects
    "quotes in a TSV": of_texts(
        train(csv_text([("text", "label"), *[(f'so he "said"\n{t}', k) for t, k in texts(40)]], delimiter="\t")), 40,
        text="text", notes=["cells are quoted"],
    ),
    "a quotation in a TSV": of_texts(
        train(table([(f'"{t}"' if i == 3 else t, k) for i, (t, k) in enumerate(texts(40))])), 40
    ),
    "backslashes before quotes": of_texts(
        train("text,label\n" + "".join(f'"he \\"said\\", {t}",{k}\n' for t, k in texts(40)), ".csv"), 40, **TEXT,
        notes=['a quote inside of quotes is written \\"'],
    ),
    "a named separator": of_texts(
        train("sep=;\ntext;label\n" + "".join(f"{t};{k}\n" for t, k in texts(40)), ".csv"), 40, **TEXT,
        notes=["its first line, `sep=`, names the separator"],
    ),
    "a header that comes again": of_texts(
        train(texts_of("text", "label", n=30) + texts_of("text", "label", n=40), ".csv"), 70, **TEXT,
        notes=["its header line comes 1 more times and is no row"],
    ),
    # --- JSON
    "rows by their numbers": of_texts(
        train(json.dumps({str(i): {"text": t, "label": k} for i, (t, k) in enumerate(texts(40))}), ".json"), 40,
        text="text", layout="jsonl",
    ),
    "a list for each column": of_texts(
        train(json.dumps({"text": [t for t, _ in texts(40)], "label": [k for _, k in texts(40)]}), ".json"), 40,
        text="text", layout="jsonl",
    ),
    "arrays in an array": refused(train(json.dumps([*map(list, texts(9))]), ".json"), "has no JSON objects"),
    "answers about one label": of_texts(
        train(json_lines({"text": t, "label": "SPORT", "answer": ("accept", "reject", "ignore")[i % 3]}
                         for i, (t, _) in enumerate(texts(60))), ".jsonl"),
        40, text="text", label="answer", layout="jsonl",
        notes=["texts without a label (rejected) are left out: 20 of 60"],
    ),
    "answers about several labels": of_texts(
        train(json_lines({"text": t, "label": f"L{k}", "answer": ("accept", "reject")[i % 4 == 3]}
                         for i, (t, k) in enumerate(texts(80))), ".jsonl"),
        60, text="text", layout="jsonl", notes=["are left out: 20 of 80 in train"],
    ),
    # --- Labels that are no classes
    "spans of characters": refused(
        train(json_lines(SPANS), ".jsonl"), "the labels in 'label' are spans or nested objects ([[0, 3, 'PER']])"
    ),
    "spans of characters as JSON in a cell": refused(
        train(csv_text([("text", "label"), *[(t, json.dumps([{"start": 1}])) for t, _ in texts(9)]]), ".csv"),
        "the labels in 'label' are spans", "Export them as CoNLL 2003",
    ),
    "several labels a text": refused(
        train(json_lines({"text": t, "label": [k, "long"]} for t, k in texts(30)), ".jsonl"), "are several a text"
    ),
    "several labels a cell": refused(
        train(table([(t, ("joy", "fear", "joy,fear")[i % 3], f"e{i}") for i, (t, _) in enumerate(texts(60))], ())),
        "the labels in 1 are several a text",
    ),
    "a label in a list": of_texts(
        train(json_lines({"text": t, "label": [k]} for t, k in texts(40)), ".jsonl"), 40, text="text", layout="jsonl"
    ),
    "a label for each text": refused(
        train(csv_text([("text", "category"), *[(t, f"remark {i}") for i, (t, _) in enumerate(texts(60))]]), ".csv"),
        "different labels for ", "are no classes",
    ),
    "names of files for texts": refused(
        train(csv_text([("text", "label"), *[(f"reviews/{i}.txt", k) for i, (_, k) in enumerate(texts(30))]]), ".csv"),
        "the texts in 'text' are names of files ('reviews/0.txt')",
    ),
    "a label in a printed list": of_texts(
        train(csv_text([("text", "label"), *[(t, f"['{k}']") for t, k in texts(40)]]), ".csv"), 40, **TEXT
    ),
    "scores with commas": refused(
        train("text;score\n" + "".join(f"{t};{i % 5},{i % 9}\n" for i, (t, _) in enumerate(texts(60))), ".csv"),
        "the labels in 'score' are numbers with commas (0,0). Write points",
    ),
    # --- Labels that are none, or the same one twice
    "-1 beside three classes": of_texts(
        train(entailed("-1", "012")), 56, text="premise", pair="hypothesis", label="gold_label", notes=["('-1')"]
    ),
    "-1 beside two classes, once": refused(
        train(table([(t, "-1" if i % 10 == 9 else k) for i, (t, k) in enumerate(texts(60))])),
        "is the label '-1' beside '0', '1' a class, or is it none?",
    ),
    "negative, neutral and positive": of_texts(
        train(table([(t, str(i % 3 - 1)) for i, (t, _) in enumerate(texts(60))])), 60
    ),
    "NA among classes": of_texts(
        train(table([(t, "NA" if i == 9 else k) for i, (t, k) in enumerate(REVIEW)])), 59, notes=["('NA')"]
    ),
    "NA among countries": refused(
        train(table([(t, ("NA", "DE", "FR")[i % 3]) for i, (t, _) in enumerate(REVIEW)])),
            "'NA' beside 'DE', 'FR' a class"
    ),
    "floats for classes": of_texts(
        {"train.csv": texts_of("text", "label").replace(",0\n", ",0.0\n").replace(",1\n", ",1.0\n"),
         "dev.csv": texts_of("text", "label", n=20)},
        60, 20, 0, **TEXT, notes=["60 labels are read in another spelling: "],
    ),
    "one label in capitals": of_texts(
        train(table([(t, "Good" if i == 7 else k) for i, (t, k) in enumerate(REVIEW)])), 60,
        notes=["1 labels are read in another spelling: 'Good' as 'good'"],
    ),
    "labels that only capitals tell apart": refused(
        train(table([(t, ("Good", "good", "bad", "Ugly")[i % 4]) for i, (t, _) in enumerate(REVIEW)])),
        "are the labels 'Good' (15) and 'good' (15) one or two?",
    ),
    "labels with marks that nobody sees": of_texts(
        train(table([(t, k + "\u200f" * (i == 3) + "\u00a0" * (i == 4)) for i, (t, k) in enumerate(REVIEW)])), 60,
        notes=["2 labels are read in another spelling"],
    ),
    "letters of two scripts": of_words(
        train(lines([[(w, t.replace("P", "\u0420") if i == 3 else t) for w, t in row] for i, row in enumerate(ner(
            40))])),
        40, notes=["as 'B-PER'"],
    ),
    **{
        f"tags like {spelled}": of_words(
            train(lines([[(w, way(t)) for w, t in row] for row in ner(40)])), 40,
                notes=[f"'{spelled}', which is read as"]
        )
        for spelled, way in (("B", lambda tag: tag[0]), ("LOC-B", lambda tag: "-".join(tag.split("-")[::-1])),
                             ("B_LOC", lambda tag: tag.replace("-", "_")))
    },
    # --- A dev split that cannot score
    "dev of another corpus": refused(
        {**train(texts_of("text", "label"), ".csv"), "dev.csv": csv_text([("text", "label"), *REVIEW])},
        "dev shares no label with train", "--held-out 0.1",
    ),
    "dev of one class": refused(
        {**train(texts_of("text", "label"), ".csv"), "dev.csv": csv_text([("text", "label"), *[(t, "1") for t,
            _ in texts(30)]])},
        "dev has one label only, '1'",
    ),
    "dev that is train": of_texts(
        {"train.csv": texts_of("text", "label"), "dev.csv": texts_of("text", "label", n=40)}, 60, 40, 0, **TEXT,
        notes=["40 of 40 dev items (100.0 %) also occur in train"],
    ),
    # --- Treebanks
    "tags of spans in MISC": refused(
        train(lines([[(str(i), w, "_", "NOUN", *"_____", f"NE={t}") for i, (w, t) in enumerate(row, 1)]
                     for row in ner(40)]), ".conllu"),
        "which tags? Its words have UPOS tags, and tags of spans in MISC (NE=...). Read are --tags NE, or --tags upos",
    ),
    "tags of spans in MISC, asked for": of_words(
        train(lines([[(str(i), w, "_", "NOUN", *"_____", f"SpaceAfter=No|NE={t}") for i, (w, t) in enumerate(row, 1)]
                     for row in ner(40)]), ".conllu"),
        40, layout="conllu", columns={"tags": "NE"}, options={"tags": "NE"},
    ),
    "tags of single words read as those of spans": refused(
        train(lines([[(str(i), w, "_", "NOUN", *"______") for i, (w, _) in enumerate(row, 1)] for row in ner(9)]),
            ".conllu"),
        "CoNLL-U has the tags of single words", task="ner",
    ),
    "tokens of no letters": of_words(
        train(lines([[(w, "-X-", "_", t) for w, t in row] for row in ner(40)], " ").replace("sees4 -X-", " -X-")
              .replace("sees -X- _ O\nNew", "sees -X- _ O\n -X- _ O\nNew", 2), ".conll"),
        40, notes=["2 lines without a word (as Label Studio writes them) are left out"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_what_people_bring_is_read_as_what_it_is_or_refused_in_one_line(name: str) -> None:
    assert "\n" not in is_what_it_is(KINDS[name])


def guessed(path: Path | str, **options: Any) -> CorpusGuess:
    return guess_corpus(ChooseOptions(data=str(path), **options), Lookup(offline=True))


def test_what_is_offered_reads_the_folder_and_parallel_files_are_read_once_joined() -> None:
    folder = written(KINDS["texts and tags line by line"].files)
    for split in ("train", "dev"):
        pairs = zip(*((folder / split / name).read_text().splitlines() for name in ("in.txt", "out.txt")), strict=True)
        joined = ["\t".join(pair) + "\n" for pair in pairs]  # as `paste` does
        (folder / f"{split}.tsv").write_text("".join(joined[: 30 if split == "train" else 15]))
    assert (guessed(folder).task, guessed(folder).spec.sizes) == ("ner", (30, 15, 0))
    moods = written(train(table([(*row, "here" if n % 2 else "there") for n, row in enumerate(REVIEW)], ("a", "b",
        "c"))),
                    Path("moods"))  # fmt: skip
    with pytest.raises(PermafrostError) as asked:
        guessed(moods)
    for option in asked.value.options:  # type: ignore[attr-defined]
        assert guessed(moods, **option).spec.columns.label == option["label"]


def test_many_files_of_a_split_are_documents_and_a_folder_may_be_given_for_them() -> None:
    folder = written(DOCUMENTS)
    found = guess_corpus(
        ChooseOptions(train=(str(folder / "train"),), dev=(str(folder / "val"),)), Lookup(offline=True)
    )
    assert (found.spec.sizes, found.spec.documents) == ((20, 20, 0), (4, 4, 0))
    assert guessed(folder).spec.content() | {"name": ""} == found.spec.content() | {"name": ""}


def test_a_single_file_goes_to_the_splits_that_its_column_names() -> None:
    written({"all.csv": texts_of("text", "label", n=80, subset=SPLIT_ROWS)}, Path())
    found = guessed("all.csv")
    assert (found.spec.sizes, found.data["folder"], found.spec.name) == ((60, 10, 10), "all.csv", "all")


def test_parts_of_spark_are_one_split_and_folders_of_hive_say_theirs() -> None:
    rows = [{"text": t, "label": k} for t, k in texts(60)]
    for n in range(3):
        for name in ("train.parquet", "dev.parquet"):
            Path("spark", name).mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows[n::3]), Path("spark", name, f"part-{n:05}.snappy.parquet"))
            Path("spark", name, "_SUCCESS").touch()
    with pytest.raises(PermafrostError, match="identical"):
        guessed("spark")
    pq.write_table(pa.Table.from_pylist(rows[:9]), Path("spark", "dev.parquet", "part-00000.snappy.parquet"))
    for n in (1, 2):
        Path("spark", "dev.parquet", f"part-{n:05}.snappy.parquet").unlink()
    assert guessed("spark").spec.sizes == (60, 9, 0)
    assert sum(guessed("spark/train.parquet").spec.sizes or ()) == 60
    for part, name in (
        ("train", "bad"),
        ("train", "good"),
        ("test", "bad"),
        ("validation", "good"),
        ("validation", "bad"),
    ):
        folder = Path("hive", f"split={part}", f"label={name}")
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([{"text": f"{part} {name} {i}"} for i in range(12)]), folder / "0.parquet")
    assert guessed("hive").spec.sizes == (24, 24, 12)


def test_classes_of_parquet_have_the_names_of_its_schema() -> None:
    features = {
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
    }
    rows = pa.Table.from_pylist([{"text": t, "label": int(k)} for t, k in texts(40)])
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(rows.replace_schema_metadata(metadata), "train.parquet")
    train_split = read_corpus("classification", guessed("train.parquet").spec).train
    assert {item.label for item in train_split if isinstance(item, Text)} == {"neg", "pos"}


# --- Whatever is written is read back, in each readable format

TEXT_CELL = st.text("ab ,;\"'éЖ中", min_size=1, max_size=9).map(str.strip).filter(bool)
ROWS = st.lists(st.tuples(TEXT_CELL, st.sampled_from(["good", "bad"])), max_size=6)
WRITERS: dict[str, Callable[[Sequence[tuple[str, str]]], str]] = {
    "tsv": lambda rows: table(list(rows), ("text", "label")),
    "quoted.tsv": lambda rows: csv_text([("text", "label"), *rows], delimiter="\t", quoting=csv.QUOTE_ALL),
    "csv": lambda rows: csv_text([("text", "label"), *rows]),
    "semicolon.csv": lambda rows: csv_text([("text", "label"), *rows], delimiter=";"),
    "named.csv": lambda rows: "sep=;\n" + csv_text([("text", "label"), *rows], delimiter=";"),
    "backslash.csv": lambda rows: csv_text(
        [("text", "label"), *rows], doublequote=False, escapechar="\\", quoting=csv.QUOTE_ALL
    ),
    "jsonl": lambda rows: json_lines({"text": t, "label": k} for t, k in rows),
    "array.json": lambda rows: json.dumps([{"text": t, "label": k} for t, k in rows]),
    "inside.json": lambda rows: json.dumps({"data": [{"text": t, "label": k} for t, k in rows]}),
    "nested.jsonl": lambda rows: json_lines({"a": {"text": t}, "b": {"label": k}} for t, k in rows),
}


def both(folder: Path, how: str, write: Callable[[Any], str], rows: Sequence[Any], **options: Any) -> DataSpec:
    """The corpus of a file with some rows as train, and with one more as dev."""
    for split, some in (("train", rows), ("dev", [*rows, rows[0]])):
        (folder / f"{split}.{how}").write_text(write(some), encoding="utf-8")
    return guessed(folder, **options).spec


@given(ROWS, st.sampled_from([*WRITERS]))
def test_texts_are_read_back_from_each_format(rows: list[tuple[str, str]], how: str) -> None:
    rows = [("a fine film, indeed", "good"), ('a poor one; "alas"', "bad"), ("so it goes", "bad"), *rows]
    with tempfile.TemporaryDirectory() as folder:
        read = read_corpus("classification", both(Path(folder), how, WRITERS[how], rows))
    assert [(item.text, item.label) for item in read.train if isinstance(item, Text)] == rows


WORD = st.text("abÄé.,", min_size=1, max_size=4)
SENTENCES = st.lists(st.lists(st.tuples(WORD, st.sampled_from(["O", "B-LOC"])), min_size=2, max_size=4), max_size=5)
WORD_WRITERS: dict[str, Callable[[Sequence[Sequence[Sequence[str]]]], str]] = {
    "txt": lambda rows: lines(rows, " "),
    "tsv": lambda rows: lines(rows),
    "numbered.conll": lambda rows: lines([[(str(i), *word) for i, word in enumerate(row, 1)] for row in rows]),
    "cells.tsv": lambda rows: "".join(
        "\t".join(" ".join(part) for part in zip(*row, strict=True)) + "\n" for row in rows
    ),
    "lists.jsonl": lambda rows: json_lines({"words": [w for w, _ in row], "ner": [t for _, t in row]} for row in rows),
    "printed.csv": lambda rows: csv_text(
        [("tokens", "tags"), *[[str([w for w, _ in row]), str([t for _, t in row])] for row in rows]]
    ),
    "misc.conllu": lambda rows: lines(
        [[(str(i), w, "_", "X", *"_____", f"name={t}") for i, (w, t) in enumerate(row, 1)] for row in rows]
    ),
}


@given(SENTENCES, st.sampled_from([*WORD_WRITERS]))
def test_words_are_read_back_from_each_format(rows: list[list[tuple[str, str]]], how: str) -> None:
    rows = [[("Ada", "B-PER"), ("sees", "O"), ("Lima", "B-LOC")], [("It", "O"), ("rains", "O")], *rows]
    with tempfile.TemporaryDirectory() as folder:
        options = {"tags": "name"} if how.endswith("conllu") else {}
        read = read_corpus("ner", both(Path(folder), how, WORD_WRITERS[how], rows, **options))
    assert [[*zip(s.forms, s.tags, strict=True)] for s in read.train if isinstance(s, Sentence)] == rows
