# ruff: noqa: E501, RUF001
"""Folders, names, labels and columns that look like what is read and are something else: each is read right, asked
about, or refused by name; never read wrongly without a word.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import guess_corpus
from tests.orchestrator.own_data.test_folder_kinds import (
    NER,
    SPLITS,
    TEXTS,
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
    treebank,
    with_splits,
)
from tests.orchestrator.own_data.test_what_people_bring import csv_text
from trials.draft import Lookup
from trials.errors import PermafrostError


def below(folders: str, files: Mapping[str, str]) -> dict[str, str]:
    """The same files in each of some folders."""
    return {f"{folder}/{name}": text for folder in folders.split() for name, text in files.items()}


def renamed(files: Mapping[str, str], names: str) -> dict[str, str]:
    return dict(zip(names.split(), files.values(), strict=True))


def scale(values: str, rare: str = "", every: int = 15) -> dict[str, str]:
    """Texts with labels in turns, of which every so many has the rare one."""
    labels = values.split()
    rows = [(t, labels[i % len(labels)] if not rare or i % every else rare) for i, (t, _) in enumerate(texts(60))]
    return train(table(rows))


COLUMNS = renamed(NER, "train.txt dev.txt test.txt")
CLASSES = {
    name: "".join(f"a film that somebody found {name}, number {i}\n" for i in range(20)) for name in ("pos", "neg")
}
CELLS = {"tokens": "sentence", "tags": "word_labels"}
ASPECTS = [(f"a fine film {i // 2}", ("battery life", "screen")[i % 2], ("good", "bad")[i % 2], i) for i in range(60)]
HIPE = "TOKEN\tNE-COARSE-LIT\tNE-COARSE-METO\tNE-FINE-LIT\tNE-FINE-METO\tNE-FINE-COMP\tNE-NESTED\tNEL-LIT\tNEL-METO\tMISC\n"


def tagged(sign: str, as_tag: Callable[[str], str] = str) -> str:
    """A sentence in one cell, its tags in another, with a sign between them."""
    rows = [(" ".join(w for w, _ in row), sign.join(as_tag(t) for _, t in row)) for row in ner_of_lengths(40)]
    return csv_text([("sentence", "word_labels"), *rows])


def ner_of_lengths(n: int) -> list[list[list[str]]]:
    return [[*row, *[["today", "O"]] * (i % 3)] for i, row in enumerate(ner(n))]


def tags_as(read: Callable[[str], str]) -> dict[str, str]:
    """Column files whose tags are written in another way."""
    return with_splits(".txt", lambda n, s: lines([[[word, read(tag)] for word, tag in row] for row in ner(n, s)]))


def hipe(end: str) -> dict[str, str]:
    """Files of CLEF-HIPE, whose sentences end in a column, or else with the document."""

    def make(n: int, start: int) -> str:
        rows = [
            f"# segment_iiif_link = https://x.example/{i}\n"
            + "".join(f"{w}\t{t}\tO\t{t.lower() if t == 'o' else t}\tO\tO\tO\t_\t_\t{end if w.startswith('York') else '_'}\n"
                      for w, t in row)
            for i, row in enumerate(ner(n, start))
        ]  # fmt: skip
        return f"{HIPE}# language = en\n# document_id = d1\n" + ("" if "End" in end else "\n").join(rows)

    return with_splits(".tsv", make)


def without(column: str, files: Mapping[str, str], named: str = "") -> dict[str, str]:
    """Files whose header line has another name for a column."""
    return {name: text.replace(column, named) for name, text in files.items()}


SHARDS = {f"train-0000{i}-of-00003.csv": table(texts(20, 20 * i), ("sentence", "label"), ",") for i in range(3)}
KINDS: dict[str, Kind] = {
    # --- Column files whose names say their split, in folders whose names do not
    "a folder for each language": refused(below("hau ibo", COLUMNS), "there are such files in hau, ibo. Give that"),
    "folds": refused(below("fold1 fold2", renamed({**COLUMNS, "dev.txt": ""}, "train.txt dev.txt test.txt")), "in fold1"),
    "a folder for each of many languages, without suffixes": refused(
        below("af am ar bg bn de en", renamed(NER, "train dev test")), "in af, am, ar, bg, bn and 2 more. Give"
    ),
    "test files alone in folders": refused(below("web press", {"test.txt": COLUMNS["test.txt"]}), "found none beside"),
    "files called devset among others": refused(
        below("web press", {"a.txt": COLUMNS["train.txt"], "devset.txt": COLUMNS["dev.txt"]}), "found none beside press"
    ),
    "the folder of a zip": of_words(below("data", COLUMNS), *SPLITS, notes=["data is read, the only folder inside"]),
    "the folder of a zip, beside what a Mac adds": of_words(
        {**below("corpus", COLUMNS), "__MACOSX/corpus/._train.txt": "Mac OS X", "readme.md": "a corpus"}, *SPLITS
    ),
    # --- Train is there
    "the hub's converter": of_texts(
        {f"default/{split}/0000.csv": table(texts(n, s), ("sentence", "label"), ",")
         for split, n, s in (("train", 40, 0), ("validation", 8, 100), ("test", 6, 200))}, *SPLITS, layout="csv",
    ),
    "a year before the split": of_texts(
        renamed(TEXTS, "twitter-2016train-A.txt twitter-2016dev-A.txt twitter-2016test-A.txt"), *SPLITS
    ),
    "capitals within the name": of_texts(renamed(TEXTS, "ABSATrain.tsv ABSADev.tsv ABSATest.tsv"), *SPLITS),
    "a capital language before it": of_words(renamed(COLUMNS, "ENtrain.txt ENdev.txt ENtest.txt"), *SPLITS),
    "a suffix that says no format": refused(
        {"train_5500.label": "".join(f"DESC:def What is {t} ?\n" for t, _ in texts(20))}, "train_5500.label: it is in no"
    ),
    "what save_to_disk writes, in a folder": refused(
        {"saved/dataset_dict.json": "{}", "saved/train/state.json": "{}"}, "saved: is what `datasets` writes"
    ),
    "a file for each class": refused(
        {f"rt-polarity.{name}": text for name, text in CLASSES.items()}, "a file for each class is not read", "awk"
    ),
    "a file for each class and split": refused(
        {f"{split}.{name}.txt": text for split in ("train", "dev") for name, text in CLASSES.items()},
        "train.neg.txt, train.pos.txt hold texts without labels",
    ),
    "annotations in a folder of their own": refused(
        {f"{folder}/a{i}.{end}": "Ada sees Lima.\n" for i in range(3) for folder, end in (("raw", "txt"), ("annotated", "out"))},
        "annotated has annotations of the 3 texts in raw",
    ),
    "a workbook beside a text about it": refused(
        {"Train_Data.xlsx": "", "readme.txt": "a corpus\n"}, "Train_Data.xlsx: .xlsx files are not read. Save the sheet"
    ),
    "files of other names": refused({"a.csv": "x", "b.csv": "y"}, "found none beside a.csv, b.csv"),
    # --- A shard is missing
    "all shards": of_texts({**SHARDS, "dev.csv": table(texts(20, 90), ("sentence", "label"), ",")}, 60, 20, 0, layout="csv"),
    "a shard is missing": refused(
        {name: text for name, text in SHARDS.items() if "1-of" not in name}, "train-00001-of-00003.csv is missing beside"
    ),
    "a shard of dev is missing": refused(
        {"train.csv": SHARDS["train-00000-of-00003.csv"], "dev-2-of-2.csv": "sentence,label\n"}, "dev-1-of-2.csv is missing"
    ),
    "a shard is missing in the folder of its split": refused(
        {"train/data-0-of-2.csv": "a,b\n"}, "data-1-of-2.csv is missing"
    ),
    "a gap in numbers": refused(
        renamed(dict([*SHARDS.items()][:2]), "train_0.csv train_2.csv"), "train_1.csv is missing beside train_0.csv, train_2.csv"
    ),
    "years are no gap": refused(
        renamed(dict([*SHARDS.items()][:2]), "train-2016.csv train-2018.csv"), "found train-2016.csv, train-2018.csv. Rename"
    ),
    "a dev split that is a Git LFS pointer": refused(
        {"train.csv": SHARDS["train-00000-of-00003.csv"], "dev.csv": "version https://git-lfs.github.com/spec/v1\n"}, "git lfs pull"
    ),
    "a Git LFS pointer called Parquet": refused(
        train("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", ".parquet"), "a Git LFS pointer", "git lfs pull"
    ),
    # --- -1 and - as classes
    "-2 to 2": of_texts(scale("-2 -1 0 1 2"), 60),
    "-1, which few have, in a scale of negative numbers": of_texts(scale("-2 0 2", "-1"), 60),
    "-1 to 2": refused(scale("-1 0 1 2"), "is the label '-1' beside '0', '1', '2' a class", "--label-none none, or"),
    "-1 is a class, as somebody said": of_texts(scale("-1 0 1 2"), 60, options={"label_none": "none"}),
    "-1 is none, as somebody said": of_texts(
        scale("-1 0 1 2"), 45, options={"label_none": "-1"}, notes=["('-1') are left out: 15 of 60"]
    ),
    "-1 beside 1 to 3": refused(scale("1 2 3", "-1"), "is the label '-1' beside '1', '2', '3' a class"),
    "- as a stance": refused(scale("- for against"), "is the label '-' beside 'against', 'for' a class", "33% of the"),
    "- and +": of_texts(scale("- 0 +"), 60),
    "- beside three classes, which few have": of_texts(scale("yes maybe no", "-"), 56, notes=["('-') are left out"]),
    "None as a stance": refused(scale("FAVOR None AGAINST"), "is the label 'None' beside 'AGAINST', 'FAVOR' a class"),
    "another label is none": of_texts(scale("a b unclear"), 40, options={"label_none": "unclear"}, notes=["20 of 60"]),
    "a label that is not there is none": refused(
        {**scale("good bad")}, "--label-none): unknown 'god', did you mean 'good'", label_none="god"
    ),
    # --- Tags of a sentence in one cell, tags in small letters
    **{f"tags parted by {sign!r}": of_words(train(tagged(sign), ".csv"), 40, layout="csv", columns=CELLS)
       for sign in (",", ", ", ";", "|", "/")},
    "tags parted by a sign that types have, too": refused(train(tagged("_"), ".csv"), "are tags of the words of each text"),
    "fewer tags than words": refused(
        train(tagged(" ").replace(" O\n", "\n"), ".csv"), "are tags of the words of each text (B-PER O B-LOC I-LOC), but not as many"
    ),
    "words and tags between commas": of_words(
        train(csv_text([("words", "tags"), *[(",".join(w for w, _ in row), ",".join(t for _, t in row)) for row in ner_of_lengths(40)]]),
              ".csv"), 40, layout="csv", columns={"tokens": "words", "tags": "tags"},
    ),
    "tags between bars, without a header line": of_words(
        train(table([(" ".join(w for w, _ in row), "|".join(t for _, t in row)) for row in ner_of_lengths(40)], ())), 40,
        layout="tsv", columns={"tokens": 0, "tags": 1},
    ),
    "tags of words parted by commas": of_words(
        train(tagged(",", lambda tag: "DET" if tag == "O" else tag[2:]), ".csv"), 40, task="pos", layout="csv",
        columns=CELLS,
    ),
    "texts with commas beside classes": of_texts(
        train(csv_text([("sentence", "label"), *[(f"a film, calm, {i}", k) for i, (_, k) in enumerate(texts(40))]]),
              ".csv"), 40, layout="csv",
    ),
    "all in small letters": of_words(tags_as(str.lower), *SPLITS, notes=["like 'b-loc', which is read as 'B-loc'"]),
    "a small o beside capital prefixes": of_words(tags_as(lambda tag: tag.replace("O", "o") if tag == "O" else tag), *SPLITS),
    "small letters and underscores": of_words(
        tags_as(lambda tag: tag.lower().replace("-", "_")), *SPLITS, notes=["like 'b_loc', which is read as 'B-loc'"]
    ),
    "one tag in small letters": refused(
        train(lines([*ner(40), [["Acme", "b-org"], ["grows", "O"]]])), "'Acme' has the tag 'b-org', which is not a span"
    ),
    "types in small letters without prefixes": refused(
        train(lines([[[w, t[2:].lower() or "o"] for w, t in row] + [["today", "o"], ["again", "o"]] for row in ner(40)]), ".txt"),
        "those of spans or of single words?", "--task ner --scheme io",
    ),
    "parts of speech in small letters": of_words(
        tags_as(lambda tag: {"O": "verb", "B": "noun", "I": "o"}[tag[0]]), *SPLITS, task="pos"
    ),
    # --- A second text that decides
    "two choices beside a premise": of_texts(
        train(json_lines({"premise": t, "choice1": f"one {t}", "choice2": f"another, longer {t}", "label": int(k)}
                         for t, k in texts(40)), ".jsonl"), 40, layout="jsonl", text="premise",
        notes=["not used: 'choice2', 'choice1' (--pair 'choice2' takes it as second texts"],
    ),
    "an aspect of a sentence": of_texts(
        train(csv_text([("Sentence", "Aspect Term", "polarity", "from"), *ASPECTS]), ".csv"), 60, layout="csv",
        text="Sentence", label="polarity", notes=["not used: 'Aspect Term' (--pair 'Aspect Term' takes it as second texts"],
    ),
    "an aspect that is asked for": of_texts(
        train(csv_text([("Sentence", "Aspect Term", "polarity", "from"), *ASPECTS]), ".csv"), 60, layout="csv",
        text="Sentence", label="polarity", pair="Aspect Term",
        options={"text": "Sentence", "label": "polarity", "pair": "Aspect Term"},
    ),
    "a target and a stance": refused(
        train(csv_text([("Tweet", "Target", "Stance"), *[(t, ("sea", "sky")[i % 2], ("FAVOR", "AGAINST", "NONE")[i % 3])
                                                        for i, (t, _) in enumerate(texts(60))]]), ".csv"),
        "Several could be labels: Target, Stance",
    ),
    "a word in two contexts": of_texts(
        train(json_lines({"word": "bank", "sentence1": t, "sentence2": f"{t} again", "label": bool(int(k))}
                         | {"word": ("bank", "plant", "cell")[i % 3]} for i, (t, k) in enumerate(texts(60))), ".jsonl"),
        60, layout="jsonl", text="sentence1", pair="sentence2", notes=["not used: 'word'"],
    ),
    # --- Blind tests
    "a test file of words and comments": of_words(
        {**COLUMNS, "test.txt": lines([[["# id 7 domain = en"], *[[word] for word, _ in row]] for row in ner(6)])},
        40, 8, 0, notes=["test is left out, as it has no labels: each line has one column"],
    ),
    "a test file of words, with comments without a space": of_words(
        {**COLUMNS, "test.txt": lines([[["#id 7"], *[[word] for word, _ in row]] for row in ner(6)])}, 40, 8, 0,
    ),
    "a treebank whose test file has no tags": of_words(
        {f"{split}.conllu": treebank(n, n).replace("NOUN" if split == "test" else "-", "_").replace("VERB" if split == "test" else "-", "_")
         for split, n in (("train", 40), ("dev", 8), ("test", 30))}, 40, 8, 0, task="pos", layout="conllu",
        notes=["test is left out, as it has no labels: every label is _"],
    ),
    "a test file of one tag that train lacks": of_words(
        {**COLUMNS, "test.txt": lines([[[word, "X"] for word, _ in row] for row in ner(6)])}, 40, 8, 0,
    ),
    **{f"a test file of {tag}": of_words(
        {**COLUMNS, "test.txt": lines([[[word, tag] for word, _ in row] for row in ner(6)])}, 40, 8, 0,
        notes=[f"test is left out, as it has no labels: every label is {tag} (test.txt)"],
    ) for tag in ("_", "-", "?")},
    "a test file of the task's JSON without tags": of_words(
        {f"{split}.json": json.dumps([{"tokens": [w for w, _ in row]} | ({} if split == "test" else {"tags": [t for _, t in row]})
                                      for row in ner(n, n)]) for split, n in (("train", 40), ("dev", 8), ("test", 6))},
        40, 8, 0, layout="jsonl", columns={"tokens": "tokens", "tags": "tags"},
        notes=["test is left out, as it has no labels: there is no column 'tags'"],
    ),
    "a test table of which all labels are alike": of_texts(
        {**TEXTS, "test.tsv": table([(t, "0") for t, _ in texts(30, 200)])}, 40, 8, 0,
        notes=["test is left out, as it has no labels: every label is 0 (test.tsv)"],
    ),
    "a test table of which a few labels are alike, by chance": of_texts(
        {**TEXTS, "test.tsv": table([(t, "0") for t, _ in texts(5, 200)])}, 40, 8, 5
    ),
    # --- CLEF-HIPE
    "HIPE with ends of sentences": of_words(hipe("EndOfLine|EndOfSentence"), 40, 8, 6, columns={"tags": 1},
        notes=["the tags are column 1 (--tags for another)"]),
    "HIPE with keys of 2022 and shorter names": of_words(
        without("-LIT", without("# language", hipe("EndOfSentence"), "# hipe2022:language")), 40, 8, 6, columns={"tags": 1}
    ),
    "HIPE with a document a block": of_words(hipe("_"), 40, 8, 6, columns={"tags": 1}),
    "HIPE's fine tags by the names of the header": of_words(
        hipe("EndOfSentence"), 40, 8, 6, columns={"tokens": 0, "tags": 3}, options={"words": "TOKEN", "tags": "NE-FINE-LIT"}
    ),
    # --- Cells that are something else
    "ids for words": refused(
        train(lines([[[f"AID327{i:02}{n}", tag] for n, (_, tag) in enumerate(row)] for i, row in enumerate(ner(40, 3))]), ".txt"),
        "which column holds the words? The first one has ids ('AID327000', ...)", "--words 0 --tags 1",
    ),
    "ids before words": refused(
        train(lines([[[f"w-{i}0{n}", *word] for n, word in enumerate(row)] for i, row in enumerate(ner(40))]), ".txt"),
        "The first one has ids", "--words 1 --tags 2, or",
    ),
    "ids before words, as somebody said": of_words(
        train(lines([[[f"w-{i}0{n}", *word] for n, word in enumerate(row)] for i, row in enumerate(ner(40))]), ".txt"),
        40, columns={"tokens": 1, "tags": 2}, options={"words": "1", "tags": "2"},
    ),
    "printed bytes": refused(
        train(csv_text([("text", "label"), *[(str(t.encode()), k) for t, k in texts(40)]]), ".csv"),
        "the cells in 'text' are bytes as Python prints them",
    ),
    "words in lists of printed bytes": refused(
        train(csv_text([("tokens", "tags"), *[(str([w.encode() for w, _ in row]), str([t for _, t in row])) for row in ner(40)]]),
              ".csv"), "the cells in 'tokens' are bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_near_miss_is_not_read_as_what_it_looks_like(name: str) -> None:
    is_what_it_is(KINDS[name])


@pytest.mark.parametrize("name", ["a file for each class", "a file for each class and split"])
def test_the_command_for_a_file_for_each_class_writes_what_is_read(name: str) -> None:
    command = is_what_it_is(KINDS[name]).split("`")[1].replace("OTHER", "../other")
    Path("other").mkdir()
    subprocess.run(command, shell=True, cwd="data", check=True)
    assert guess_corpus(ChooseOptions(data="other/train.tsv"), Lookup(offline=True)).task == "classification"


CYRILLIC = "Текст;метка\n" + "Хороший фильм про нас;да\nПлохое кино и объём;нет\n" * 20
ENCODED = {
    "windows-1251": CYRILLIC, "koi8-r": CYRILLIC, "cp866": CYRILLIC,
    "rk1048": "Мәтін;белгі\n" + "Бұл өте жақсы фильм;иә\nНашар кино көрмеңіз ғой;жоқ\n" * 20,
    "gb18030": "文本,标签\n" + "这部电影非常好，我很喜欢,好\n质量太差了，不要买,坏\n" * 20,
    "big5": "文本,標籤\n" + "這部電影非常好，我很喜歡,好\n品質太差了，不要買,壞\n" * 20,
    "cp932": "文,札\n" + "この映画はとても面白かったです,良\nつまらない映画でした,悪\n" * 20,
    "cp949": "글,표\n" + "이 영화는 정말 재미있었어요,예\n재미없는 영화였습니다,아니\n" * 20,
    "windows-1252": "Text;Urteil\n" + "Schöner Film für Gäste;ja\nÜbler Film, größter Mist;nein\n" * 20,
    "windows-1253": "κείμενο;ετικέτα\n" + "Πολύ καλή ταινία, τη συνιστώ;ναι\nΚακή ταινία;όχι\n" * 20,
    "utf-16": "text;label\n" + "a good film;yes\na bad one;no\n" * 20,
    "utf-16le": "text;label\n" + "a good film;yes\na bad one;no\n" * 20,
}  # fmt: skip


@pytest.mark.parametrize("encoding", ENCODED)
def test_the_command_that_is_proposed_for_an_encoding_restores_its_letters(encoding: str) -> None:
    Path("other").mkdir()
    Path("train.csv").write_bytes(ENCODED[encoding].encode(encoding))
    with pytest.raises(PermafrostError, match=f"fit {encoding}, `iconv -f {encoding} -t utf-8") as error:
        guess_corpus(ChooseOptions(data="train.csv"), Lookup(offline=True))
    subprocess.run(str(error.value).split("`")[1].replace("OTHER", "other"), shell=True, check=True)
    assert Path("other/train.csv").read_text("utf-8") == ENCODED[encoding]


POLISH = "Zły film, żałuję, że go obejrzałem;nie\nŚwietny film, złoty;tak\n" * 20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (POLISH.encode("cp1250"), "from the encoding that it was saved in (`iconv -f ENCODING"),
        (CYRILLIC.encode() + b"\xd0", "from the encoding that it was saved in"),
        (gzip.compress(CYRILLIC.encode()), "this is a .gz file, whatever its name says. Name it so: `mv train.csv train.csv.gz`"),
        (b"PK\x03\x04" + b"\xff" * 99, "this is a .zip file, whatever its name says"),
        (b"%PDF-1.4\n%\xe2\xe3" + b"\xff" * 99, "this is a .pdf file"),
        (b"\0" * 99, "has zero bytes alone"),
        (b"/annex/objects/MD5E-s9--0.csv\n", "cannot be read (a pointer of git-annex: `git annex get` fetches"),
        ("schöne Größe;ja\nüble Käse;nein\n".encode("mac_roman") * 9, "from the encoding that it was saved in"),
        (b"PAR1" + b"\xff" * 99, "this is a .parquet file"),
    ],
)  # fmt: skip
def test_no_encoding_is_proposed_that_would_write_other_letters(content: bytes, said: str) -> None:
    Path("train.csv").write_bytes(content)
    with pytest.raises(PermafrostError) as error:
        guess_corpus(ChooseOptions(data="train.csv"), Lookup(offline=True))
    assert said in str(error.value)
