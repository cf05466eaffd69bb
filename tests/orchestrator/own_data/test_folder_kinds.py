"""Folders that people bring, a kind each: what they are taken for, what is said about it, or why they are refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import guess_corpus
from orchestrator.sweeps.corpus_words import corpus_lines, examples
from trials.corpora.corpus import Text
from trials.draft import Lookup
from trials.errors import MissingError, PermafrostError
from trials.sources.places.corpus_draft import DataDraft
from trials.tasks.task_corpus import read_corpus

Sentences = Sequence[Sequence[Sequence[str]]]  # rows of columns


@dataclass(frozen=True)
class Kind:
    """A folder or file, and what comes out: a task, a format and columns with sizes, or an error."""

    files: Mapping[str, str]
    task: str = ""
    format: str = ""
    columns: Mapping[str, str | int] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()  # of train, dev and test; of all of them where a share of train is held out
    notes: Sequence[str] = ()
    error: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = "data"


def of_words(files: Mapping[str, str], *sizes: int, task: str = "ner", layout: str = "columns", **more: Any) -> Kind:
    """Tagged words."""
    return Kind(files, task, layout, sizes=sizes, **more)


def of_texts(
    files: Mapping[str, str], *sizes: int, task: str = "classification", layout: str = "tsv",
    text: str | int = "sentence", pair: str | None = None, label: str | int = "label", document: str | None = None,
    **more: Any,
) -> Kind:  # fmt: skip
    """Texts or pairs of them, in these columns."""
    columns = {"text": text, "pair": pair, "label": label, "document": document}
    return Kind(files, task, layout, {key: at for key, at in columns.items() if at is not None}, sizes, **more)


def refused(files: Mapping[str, str], *error: str, **options: Any) -> Kind:
    """What ends in an error with these words."""
    return Kind(files, error=error, options=options)


def lines(sentences: Sentences, gap: str = "\t", before: str = "") -> str:
    return "".join(before + "".join(gap.join(row) + "\n" for row in rows) + "\n" for rows in sentences)


def ner(n: int, start: int = 0) -> list[list[list[str]]]:
    """Sentences of entities in IOB2."""
    return [
        [[f"Ada{i}", "B-PER"], ["sees", "O"], ["New", "B-LOC"], [f"York{i}", "I-LOC"]] for i in range(start, start + n)
    ]


def treebank(n: int, start: int = 0) -> str:
    words = ("NOUN", "VERB")
    return lines(numbered([[[f"w{i}", "_", tag, *"_" * 6] for tag in words] for i in range(start, start + n)]))


def as_iob1(sentences: Sentences) -> list[list[list[str]]]:
    return [[[*rest, tag.replace("B-", "I-")] for *rest, tag in rows] for rows in sentences]


def numbered(sentences: Sentences, *more: str) -> list[list[list[str]]]:
    return [[[str(i), row[0], *row[1:], *more] for i, row in enumerate(rows, start=1)] for rows in sentences]


def with_tag(sentences: Sentences, tag: str) -> str:
    return lines([*sentences, [["Acme", tag], ["grows", "O"]]])


def texts(n: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"a {'calm' if i % 2 else 'loud'} film number {i}", str(i % 2)) for i in range(start, start + n)]


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = ("sentence", "label"), gap: str = "\t") -> str:
    return "".join(gap.join(row) + "\n" for row in ([header, *rows] if header else rows))


def pairs(*header: str, labels: Sequence[str] = ("0", "1"), n: int = 80, start: int = 0) -> str:
    rows = [
        [str(i), f"a boat sails {i}", f"a ship sails {i}", labels[i % len(labels)]] for i in range(start, start + n)
    ]
    return table(rows, ("index", *header))


def json_lines(rows: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def with_splits(suffix: str, make: Any, train: int = 40) -> dict[str, str]:
    return {f"train{suffix}": make(train, 0), f"dev{suffix}": make(8, 100), f"test{suffix}": make(6, 200)}


def train(text: str, suffix: str = ".tsv") -> dict[str, str]:
    return {f"train{suffix}": text}


SPLITS = (40, 8, 6)
NER = with_splits(".tsv", lambda n, start: lines(ner(n, start)))
TEXTS = with_splits(".tsv", lambda n, start: table(texts(n, start)))
REVIEWS = {
    f"{split}/{name}/{i}_{i % 10}.txt": f"A {name} film.<br />Number {split} {i}."
    for split, n in (("train", 12), ("test", 4))
    for name in ("neg", "pos")
    for i in range(n)
}
WORDS_A_ROW = (
    "Sentence #,Word,POS,Tag\nSentence: 1,Bakers,NNS,O\n,of,IN,O\n,Lima,NNP,B-geo\n"
    "Sentence: 2,Peru,NNP,B-gpe\n,says,VBZ,O\n"
)
CONLL09 = "".join(
    f"1\tMira{i}\tmira\tmira\tNNP\tNNP\t_\t_\t2\t2\tSBJ\tSBJ\t_\t_{extra}\n2\tleaves\tleave\tleave\tVBZ\tVBZ\t_\t_\t0\t0"
    f"\tROOT\tROOT\tY\tleave.01{extra}\n\n"
    for i in range(40)
    for extra in ["\tA0" * (i % 3)]
)
ACTORS = train(lines([[["Ada", "person-actor"], ["sees", "O"], [f"us{i}", "O"]] for i in range(60)]))
COLA = train(table([(f"src{i % 4}", k, "" if i % 2 else "*", t) for i, (t, k) in enumerate(texts(80))], ()))
SIMILAR = train(pairs("sentence1", "sentence2", "score", labels=("1.000", "2.500", "5.000")))
ENTAILED, GERMAN = train(pairs("premise", "hypothesis", "label")), train(pairs("frage_a", "frage_b", "gleich"))
REVIEW = [(f"a rather long review with the number {n}", "good" if n % 3 else "bad") for n in range(60)]
MOODS = [(*row, "here" if n % 2 else "there") for n, row in enumerate(REVIEW)]
THREADS = train(table([(*row, str(n // 7)) for n, row in enumerate(REVIEW)], ("text", "label", "Doc_ID")))


def with_documents(value: str) -> dict[str, str]:
    return train(table([(*row, value.format(n=n)) for n, row in enumerate(REVIEW)], ("text", "label", "document")))


KINDS: dict[str, Kind] = {
    # --- Words a line
    "words a line in .tsv": of_words(NER, *SPLITS, notes=["format columns, as train.tsv has one word a line"]),
    "parts of speech in .tsv": of_words(
        with_splits(".tsv", lambda n, start: lines([[["Ada", "PROPN"], [f"a{start + i}", "VERB"]] for i in range(n)])),
        *SPLITS, task="pos",
    ),
    "a table in .txt": of_texts(
        with_splits(".txt", lambda n, start: table(texts(n, start))), *SPLITS,
        notes=["format tsv, as train.txt has cells separated by tabs"],
    ),
    "CoNLL-U in .conll": of_words(
        with_splits(".conll", treebank),
        *SPLITS, task="pos", layout="conllu", notes=["format conllu, as train.conll has"],
    ),
    "eng.train, eng.testa and eng.testb in IOB1": of_words(
        {f"eng.{split}": "-DOCSTART- -X- O O\n\n"
         + lines([[[r[0], "NNP", "I-NP", r[1]] for r in rows] for rows in as_iob1(ner(n, start))], " ")
         for split, n, start in (("train", 40, 0), ("testa", 8, 100), ("testb", 6, 200))},
        *SPLITS, notes=["train, dev, test: the tags are IOB1: a span begins with I-"],
    ),
    # --- Slips in tags
    **{
        f"the tag {tag} among those of spans": refused(
            train(with_tag(ner(60), tag), ".txt"), "train.txt:301: 'Acme' has the tag", f"Did you mean {meant!r}?"
        )
        for tag, meant in (("B_ORG", "B-ORG"), ("b-org", "B-org"), ("0", "O"))
    },
    **{f"an O that is {sign} everywhere": of_words(
        train(lines(ner(60)).replace("\tO\n", f"\t{sign}\n")), 60, notes=[f"like {sign!r}, which is read as 'O'"]
    ) for sign in ("0", "OUT", "_")},
    "an I- that continues nothing": of_words(
        {"train.bio": with_tag(ner(60), "I-ORG"), "dev.bio": lines(ner(8, 100))}, 61, 8, 0,
        notes=["train: 1 tag breaks IOB2, which all others follow (the first: ",
               "train.bio:301: 'Acme' has the tag 'I-ORG')"],
    ),
    "an I- that continues nothing, with the scheme given": refused(
        {"train.bio": with_tag(ner(60), "I-ORG"), "dev.bio": lines(ner(8, 100))},
        "train.bio:301: 'Acme' has the tag 'I-ORG', which has no preceding B-ORG", "leave out `scheme`", scheme="iob2",
    ),
    "IOB1 with a B- that it does not need": of_words(
        {"train.bio": with_tag(as_iob1(ner(60)), "B-ORG"), "dev.bio": lines(as_iob1(ner(8, 100)))}, 61, 8, 0,
        notes=["train, dev: the tags are IOB1", "train: 1 tag breaks IOB1"],
    ),
    "types without a prefix": refused(
        ACTORS, "are its tags ('O', 'person-actor') those of spans or of single words?", "--task ner --scheme io"
    ),
    "types without a prefix, said to be IO": of_words(ACTORS, 60, options={"scheme": "io"}),
    "BMES": of_words(
        {"train.char.bmes": lines([[[f"a{i}", "B-NAME"], ["b", "M-NAME"], ["c", "E-NAME"], ["d", "O"]]
                                   for i in range(60)]),
         "test.char.bmes": lines([[["e", "S-NAME"], ["f", "O"]]] * 2)},
        62,
    ),
    # --- Columns that are not the words
    "a running number, words, parts of speech and spans": of_words(
        train(lines(numbered([[[w, "NNP", "I-NP", t] for w, t in rows] for rows in ner(60)]), " "), ".txt"), 60,
        columns={"tokens": 1}, notes=["column 0 numbers the words of each sentence"],
    ),
    "a running number and a name of the annotator behind the tags": of_words(
        train(lines(numbered(ner(60), "-", "amy"), before="# sent_id = a\n# text = b c\n"), ".iob2"), 60,
        columns={"tokens": 1, "tags": 2}, notes=["the tags are column 2"],
    ),
    "a first line that names the columns": of_words(
        {name: "Token\tNER\n" + text for name, text in NER.items()}, *SPLITS,
        notes=["the first line names the columns (token, ner) and is no sentence"],
    ),
    "a test split of words without tags": of_words(
        {**NER, "test.tsv": "Ada\nsees\n\nYork\n"}, 40, 8, 0,
        notes=["test is left out, as it has no labels: each line has one column (test.tsv)"],
    ),
    "a test split of nothing but O": of_words(
        {**NER, "test.tsv": lines([[["Ada", "O"], ["sees", "O"]]] * 16)}, 40, 8, 0,
        notes=["test is left out, as it has no labels: every label is O (test.tsv)"],
    ),
    "the tag before the word": of_words(
        train(lines([[row[::-1] for row in rows] for rows in ner(60)]), ".bio"), 60,
        columns={"tokens": 1, "tags": 0}, notes=["each line has the tag first"],
    ),
    "CoNLL-2009 with a column for each predicate": refused(
        train(CONLL09, ".txt"), "which column holds the tags?", "--tags"
    ),
    "a treebank without its words": refused(
        train(lines([[[str(i), "_", "_", "NOUN", *"_" * 6] for i in (1, 2, 3)]] * 60), ".conllu"),
        "all 180 words are `_`: the corpus is released without its text",
    ),
    "columns of which most words are one": of_words(
        train(lines([[["x", "B-PER"], ["x", "O"], [f"w{i}", "O"]] for i in range(60)])), 60,
        notes=["of the words are 'x'; is it the column of the words (--words)?"],
    ),
    "no blank lines": of_words(
        {"train.bio": "".join(f"w{i}\tO\n" for i in range(300)) + "Ada\tB-PER\n", "dev.bio": lines(ner(8))}, 1, 8, 0,
        notes=["train: 1 sentence of 301 words: there are no blank lines between sentences"],
    ),
    "words and tags in lists": of_words(
        train(json_lines({"tokens": ["Ann", "naps", f"{n}"], "ner_tags": ["B-PER", "O", "O"]} for n in range(60)),
              ".jsonl"),
        60, layout="jsonl", columns={"tokens": "tokens", "tags": "ner_tags"},
    ),
    # --- Comments
    **{
        f"comments like {comment!r}": of_words(train(lines(ner(60), before=comment + "\n"), ".conll"), 60)
        for comment in ("#\thttp://example.org/1 [2011-03-04]", "#begin document (x); part 000")
    },
    # --- Splits by their names
    **{
        f"splits called {names}": of_texts(dict(zip(names.split(), TEXTS.values(), strict=True)), *SPLITS)
        for names in (
            "train.tsv validation.tsv test.tsv",
            "train.tsv Valid.tsv TEST.tsv",
            "my_train.tsv my_val.tsv my_test.tsv",
            "train.tsv testa.tsv testb.tsv",
            "training.tsv development.tsv testing.tsv",
            "train-00000-of-00001.tsv validation-00000-of-00001.tsv test-00000-of-00001.tsv",
        )
    },
    "shards of a split": of_texts(
        {"train-00000-of-00002.tsv": table(texts(20)), "train-00001-of-00002.tsv": table(texts(20, 20)),
         "validation-00000-of-00001.tsv": table(texts(8, 100))},
        40, 8, 0,
    ),
    "no split at all": refused({"README": "x"}, "needs one file with 'train' in its name"),
    "splits in the only folder, further down": of_words(
        {f"data/conll/{name}": text for name, text in NER.items()}, *SPLITS,
        notes=["data/conll is read, the only folder inside that holds a corpus"],
    ),
    "what save_to_disk writes": refused(
        {"dataset_dict.json": "{}", "train/state.json": "{}"}, "with `save_to_disk`", "to_parquet"
    ),
    "splits called trainset and testset": of_texts(
        {"trainset.tsv": table(texts(60)), "testset.tsv": table(texts(6, 200))}, 66
    ),
    "a dev split twice": refused(
        {**TEXTS, "valid.tsv": table(texts(8, 300))},
        "needs one file with 'dev' in its name, found dev.tsv, valid.tsv", "--dev FILE",
    ),
    "a dev split twice, both given": of_texts(
        {**TEXTS, "valid.tsv": table(texts(8, 300))}, 40, 16, 6, options={"dev": ["dev.tsv", "valid.tsv"]}
    ),
    "a file that looks like a split": of_texts(
        {**TEXTS, "eval.tsv": table(texts(8, 300)), "train.json": "{}"}, *SPLITS,
        notes=["eval.tsv, train.json look like splits and are not used"],
    ),
    "MNLI's two dev splits": of_texts(
        {name: pairs("sentence1", "sentence2", "gold_label", start=start, n=n)
         for name, start, n in (("train.tsv", 0, 40), ("dev_matched.tsv", 100, 8), ("dev_mismatched.tsv", 200, 8))},
        40, 8, 0, task="mnli", options={"task": "mnli"}, text="sentence1", pair="sentence2", label="gold_label",
    ),
    "a copy of dev as test": of_texts(
        {**TEXTS, "test.tsv": TEXTS["dev.tsv"]}, 40, 8, 0, notes=["test.tsv is left out: it is identical to dev.tsv"]
    ),
    # --- Labels
    "a test split of -1": of_texts(
        {**TEXTS, "test.tsv": table([(t, "-1") for t, _ in texts(6, 200)])}, 40, 8, 0,
        notes=["test is left out, as it has no labels: every label is -1 (test.tsv)"],
    ),
    "a test split without a label column": of_texts(
        {**TEXTS, "test.tsv": table([(str(n), t) for n, (t, _) in enumerate(texts(6, 200))], ("index", "sentence"))},
        40, 8, 0, notes=["test is left out, as it has no labels: there is no column 'label'"],
    ),
    "a dev split of -1": refused(
        {**TEXTS, "dev.tsv": table([(t, "-1") for t, _ in texts(6, 200)])},
        "dev.tsv: the dev split has no labels: every label is -1",
    ),
    "-1 as one of two classes": of_texts(
        with_splits(".tsv", lambda n, start: table([(t, k.replace("0", "-1")) for t, k in texts(n, start)])), *SPLITS
    ),
    # --- Pairs
    "STS-B's table": of_texts(SIMILAR, 80, task="stsb", text="sentence1", pair="sentence2", label="score"),
    "a pair whose text and label are given": of_texts(
        SIMILAR, 80, options={"task": "stsb", "text": "sentence1", "label": "score"},
        task="stsb", text="sentence1", pair="sentence2", label="score",
        notes=["'sentence2' is taken as the second text of each pair (--pair none to leave it out)"],
    ),
    "a pair of which one text is asked for": of_texts(
        ENTAILED, 80, options={"text": "hypothesis", "label": "label", "pair": "none"}, text="hypothesis"
    ),
    "a pair with names of its own": refused(
        GERMAN, "Several look like texts: frage_a, frage_b",
        "Read are --text frage_a --pair frage_b --label gleich, or --text frage_a --pair none --label gleich",
    ),
    "a pair task whose second text nobody can name": refused(
        GERMAN, "Which column is the second text of each pair (--pair COLUMN).", "--pair frage_b",
        task="qqp", text="frage_a", label="gleich",
    ),
    # --- Tables
    "a header with known names among others": of_texts(
        train(table([(str(i), *row) for i, row in enumerate(REVIEW)], ("id", "sentence", "label"))), 60
    ),
    "known names in capitals": of_texts(
        train(table(REVIEW, ("Review", "Sentiment"))), 60, text="Review", label="Sentiment"
    ),
    "a header with other names": of_texts(
        train(table([(t, str(i), "5" if k == "good" else "1") for i, (t, k) in enumerate(REVIEW)],
                    ("note", "n", "stars"))),
        60, text="note", label="stars",
    ),
    "no header": of_texts(train(table(REVIEW, ())), 60, text=0, label=1),
    "no header, columns given": of_texts(
        train(table(REVIEW, (), ","), ".csv"), 60, layout="csv", text=0, label=1, options={"text": "0", "label": "1"},
        notes=["columns text = 0, label = 1; no header line (--text and --label for others)"],
    ),
    "numbers given for a table with a header": of_texts(
        train(table([row[::-1] for row in REVIEW], ("label", "Sentence"))), 60, text="Sentence",
        options={"text": "1", "label": "0"},
    ),
    "labels that nobody can tell apart": refused(
        train(table(MOODS, ("note", "mood", "place"))),
        "Several could be labels: mood, place. It has columns 'note', 'mood', 'place'; its first rows: 'a rather",
        "Read are --text note --label mood, or --text note --label place (in a sweep file `columns: {text: note, ",
    ),
    "names of columns for a table without a header": refused(
        train(table(REVIEW, ())), "from 0 to 1. Read are --text 0 --label 1 (in a sweep",
        text="body", label="mood",
    ),
    "semicolons": of_texts(
        train(table([(f'"{t}, indeed"', k) for t, k in texts(80)], ("text", "label"), ";"), ".csv"), 80,
        layout="csv", text="text", notes=["the cells are separated by semicolons"],
    ),
    "a word a row": refused(
        train(WORDS_A_ROW, ".csv"),
        "a row holds one word and its tag, not a text: the tags are column 'Tag'", "format: columns",
    ),
    "CoLA as it is published": of_texts(COLA, 80, text=3, label=1),
    "single words as texts": of_texts(
        train(table([(f"word{i}", str(i % 2)) for i in range(60)], ("text", "label"), ","), ".csv"), 60,
        layout="csv", text="text", notes=["texts have no space: single words, or a script that writes none"],
    ),
    "sentences without labels": refused(
        train("".join("so " * (i % 7) + f"many words {i}\n" for i in range(60)), ".txt"),
        "it is in no format that is recognised. Its first lines: 'many words 0'; 'so many words 1'. Write a row",
    ),
    "JSON lines called .json": of_texts(
        {f"{split}.json": json_lines({"text": t, "label": int(k)} for t, k in texts(n, start))
         for split, n, start in (("train", 40, 0), ("validation", 8, 100))},
        40, 8, 0, layout="jsonl", text="text",
    ),
    "a single file": of_texts(
        {"x.csv": table([(f'"{t}"', k) for t, k in texts(80)], ("text", "label"), ",")}, 80,
        layout="csv", name="data/x.csv", text="text", notes=["no dev split: 30% of train serve as dev"],
    ),
    # --- Documents
    **{
        f"a column that clearly names documents, given {given}": of_texts(
            THREADS, 60, text="text", document="Doc_ID", notes=["Doc_ID"], options=given
        )
        for given in ({}, {"text": "text", "label": "label"}, {"document": "2"})
    },
    "a column of documents that dev lacks": of_texts(
        {**THREADS, "dev.tsv": table(REVIEW, ("text", "label"))}, 60, 60, 0, text="text"
    ),
    "a document a row": of_texts(with_documents("{n}"), 60, text="text"),
    "a column of documents that is not there": refused(
        THREADS, "columns.document (--document): unknown 'thread'", document="thread"
    ),
    # --- A folder for each class
    "IMDB": of_texts(
        {**REVIEWS, "train/unsup/0_0.txt": "Any film.", "train/urls_pos.txt": "x", "README": "y"}, 32,
        layout="jsonl", text="text",
        notes=["a folder for each class (neg, pos)", "train/unsup is not used: its 1 texts"],
    ),
    "classes without splits": of_texts(
        {f"{name}/{i:03}.txt": f"News of {name} {i}." for name in ("sport", "tech", "art") for i in range(20)}, 60,
        layout="jsonl", text="text", notes=["a folder for each class (art, sport, tech)"],
    ),
}  # fmt: skip


def written(files: Mapping[str, str], folder: Path = Path("data")) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_is_understood_or_refused_with_its_true_cause(name: str) -> None:
    is_what_it_is(KINDS[name])


def is_what_it_is(kind: Kind) -> str:
    """Whether it is guessed or refused as it should be; the refusal."""
    written(kind.files)
    asked = ChooseOptions(data=kind.name, **kind.options)
    asked.check()
    if kind.error:
        with pytest.raises(PermafrostError) as error:
            guess_corpus(asked, Lookup(offline=True))
        assert [words for words in kind.error if words not in str(error.value)] == [], str(error.value)
        return str(error.value)
    found = guess_corpus(asked, Lookup(offline=True))
    columns = found.spec.columns.model_dump(exclude_none=True)
    sizes = found.spec.sizes if found.spec.held_out is None else (sum(found.spec.sizes or ()),)
    assert (found.task, found.spec.format, columns, sizes) == (kind.task, kind.format, kind.columns, kind.sizes)
    assert [words for words in kind.notes if words not in "\n".join(found.lines)] == [], found.lines
    again = Lookup(offline=True).data(DataDraft.model_validate(found.data), found.task)
    assert again.content() == found.spec.content()  # a sweep file reads the same
    if "document" in columns:
        assert 1 < (found.spec.documents or (0, 0))[1] < (found.spec.sizes or (0, 0))[1]
    return ""


def test_a_bundled_sample_needs_no_guess_but_the_task() -> None:
    found = guess_corpus(ChooseOptions(data="UD_Naija-NSC-sample"), Lookup(offline=True))
    assert (dict(found.data), found.task) == ({"bundled": "UD_Naija-NSC-sample"}, "pos")
    assert found.lines[0].endswith("800 sentences for training, 500 dev of 40 documents, 500 test of 10 documents")


def test_a_single_file_names_its_corpus_and_what_is_not_there_is_missing() -> None:
    written({"all words.csv": table(REVIEW, ("text", "label"), ",")}, Path())
    found = guess_corpus(ChooseOptions(data="all words.csv"), Lookup(offline=True))
    assert {"train": ["all words.csv"], "held_out": 0.3, "name": "all-words"}.items() <= found.data.items()
    with pytest.raises(
        MissingError, match=r"all wrds.csv: no such file or folder\. Did you mean 'all words.csv'\? Give"
    ):
        guess_corpus(ChooseOptions(data="all wrds.csv"), Lookup(offline=True))


def test_on_a_terminal_a_person_says_which_option_it_is_and_documents_may_be_left_out() -> None:
    questions = list[str]()

    def ask(question: str, choices: Sequence[str]) -> str:
        questions.append(question)
        return choices[1]

    written(train(table([(*row, "7") for row in MOODS], ("note", "mood", "place", "n"))))
    asked = ChooseOptions(data="data", ask=ask)
    columns = guess_corpus(asked, Lookup(offline=True)).data["columns"]
    assert (columns["text"], columns["label"]) == ("note", "place")
    assert "Which? 1 = --text note --label mood; 2 = --text note --label place" in questions[0]
    written(THREADS)
    without = guess_corpus(ChooseOptions(data="data", document="none"), Lookup(offline=True))
    assert without.data["columns"] == {"text": "text", "label": "label", "document": "none"}
    again = Lookup(offline=True).data(DataDraft.model_validate(without.data), without.task)
    assert (without.spec.columns.document, again.columns.document) == (None, None)
    assert not any(without.spec.documents or ())


def test_a_changed_text_is_another_corpus_and_the_same_texts_are_converted_once() -> None:
    folder = written(REVIEWS)
    with pytest.raises(PermafrostError, match=r"a folder for each class .*, and none of dev\. .* `held_out: 0\.1`"):
        DataDraft(folder=str(folder)).resolve()
    first = DataDraft(folder=str(folder), held_out=0.1).resolve()
    stamp = Path(first.train[0]).stat().st_mtime_ns
    again = DataDraft(folder=str(folder), held_out=0.1).resolve()
    assert (again, Path(again.train[0]).stat().st_mtime_ns) == (first, stamp)
    (folder / "train/pos/0_0.txt").write_text("Quite another film.", encoding="utf-8")
    assert DataDraft(folder=str(folder), held_out=0.1).resolve().fingerprint != first.fingerprint
    for content, said in ((b" \n", "neg/0_0.txt: the text is empty"), (b"caf\xe9", "neg/0_0.txt:1: not UTF-8 text")):
        (folder / "train/neg/0_0.txt").write_bytes(content)
        with pytest.raises(PermafrostError, match=said):
            guess_corpus(ChooseOptions(data="data"), Lookup(offline=True))


# --- What is shown


def test_examples_show_words_with_their_tags_and_texts_with_their_labels() -> None:
    found = guess_corpus(ChooseOptions(data=str(written(NER))), Lookup(offline=True))
    assert examples(read_corpus("ner", found.spec).train)[0] == "Ada0/B-PER sees/O New/B-LOC York0/I-LOC"
    shown = corpus_lines("ner", found.spec)
    assert shown[0] == "tags: B-PER 25.0 %, O 25.0 %, B-LOC 25.0 %, I-LOC 25.0 %"
    assert shown[1] == "160 words, 82 different, most often 'sees' (25.0 %); 0 sentences of one word (0.0 %)"
    other = guess_corpus(ChooseOptions(data=str(written(TEXTS, Path("texts")))), Lookup(offline=True))
    assert corpus_lines("classification", other.spec)[2:] == [
        "e.g. a loud film number 0 => 0", "e.g. a calm film number 1 => 1", "e.g. a loud film number 2 => 0"
    ]  # fmt: skip


def test_pairs_are_shown_side_by_side_and_long_texts_are_cut() -> None:
    pair = Text("a boat " * 40, "a ship", "1")
    assert examples([pair]) == [f"{('a boat ' * 40)[:46]} ... | a ship => 1"]
