"""The commands `data fetch` and `data check`, against a treebank server on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator.commands.data import app
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from tests.servers import UdServer
from tests.stand_ins import treebanks
from trials.sources.places.corpus_draft import DataDraft, named_corpus

EWT = "ud:UD_English-EWT@2.16"
NUMBERED = 3 * "1\tAda\tI-PER\t_\n2\tsees\tO\t_\n3\t{0}\tI-LOC\t_\n\n"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UdServer]:
    """Two treebanks, and an empty cache."""
    with UdServer(treebanks(first=20)) as running:
        monkeypatch.setenv("PERMAFROST_UD_URL", running.url)
        monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "*")
        yield running


@pytest.fixture
def texts(tmp_path: Path) -> str:
    """Texts without a header: one text of dev stands in train, one label of dev does not."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "train.tsv").write_text("a b\tgood\nc d e\tbad\na b\tgood\n")
    (folder / "dev.tsv").write_text("a b\tgood\nc d e f g h\tmixed\n")
    return str(folder)


def data(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def flat(text: str) -> str:
    return " ".join(text.split())


def refusal(*words: str, code: int) -> str:
    done = data(*words)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    return flat(done.stderr)


@each(
    "name, means",
    [
        ("UD_English-EWT-sample", DataDraft(bundled="UD_English-EWT-sample")),
        ("./treebank", DataDraft(folder="./treebank")),
        ("reviews.csv", DataDraft(folder="reviews.csv")),
        ("tests", DataDraft(folder="tests")),
        ("UD_English-EWT", DataDraft(ud="UD_English-EWT")),
        ("UD_English-EWT@2.16", DataDraft(ud="UD_English-EWT", release="2.16")),
        ("ud:UD_English-EWT", DataDraft(ud="UD_English-EWT")),
        ("imdb", DataDraft(hub="imdb")),
        ("glue/sst2", DataDraft(hub="glue/sst2")),
        ("nyu-mll/glue/sst2", DataDraft(hub="nyu-mll/glue", config="sst2")),
        ("hub:tests", DataDraft(hub="tests")),
        (EWT, DataDraft(ud="UD_English-EWT", release="2.16")),
        ("hub:nyu-mll/glue/sst2@abc", DataDraft(hub="nyu-mll/glue", config="sst2", revision="abc")),
        ("hub:a/b@refs/convert/parquet", DataDraft(hub="a/b", revision="refs/convert/parquet")),
    ],
)
def test_a_name_on_the_command_line_means_a_corpus(
    monkeypatch: pytest.MonkeyPatch, name: str, means: DataDraft
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    assert named_corpus(name) == means


def test_a_treebank_is_fetched_with_its_licence_and_not_asked_for_again(server: UdServer) -> None:
    first = data("fetch", EWT)
    assert first.exit_code == 0, first.output
    assert f"{EWT} (new)" in flat(first.stdout)
    assert "CC BY-SA 4.0" in flat(first.stdout)
    assert re.search(r"download en_ewt-ud-train\.conllu \([\d.]+ k?B\)", flat(first.stderr))
    assert "all requested files are on this machine" in first.stderr
    assert server.asked()
    again = data("fetch", EWT)
    assert (again.exit_code, "(new)" in again.stdout, server.asked()) == (0, False, [])
    assert "UD_English-EWT (conllu, task pos)" in data("check", EWT).stdout
    assert server.asked() == []


def test_everything_a_sweep_names_is_fetched(server: UdServer, tmp_path: Path) -> None:
    text = 'space: {data: [{ud: UD_English-EWT, release: "2.16"}, {ud: UD_Naija-NSC, release: "2.16"}]}\n'
    done = data("fetch", "--sweep", str(write_sweep(tmp_path / "two.yaml", text)))
    assert done.exit_code == 0, done.output
    assert done.stdout.count("(new)") == 2


def test_json_holds_what_the_tables_show(tmp_path: Path) -> None:
    bank = write_treebank(tmp_path / "bank", train=8, dev=5)
    found = json.loads(data("check", str(bank), "--json").stdout)
    assert found["name"] == "bank"
    assert {name: split["items"] for name, split in found["splits"].items()} == {"train": 8, "dev": 5, "test": 4}
    for split in found["splits"].values():
        assert sum(split["labels"].values()) == split["words"]
        assert sum(split["lengths"]) == split["items"]
    assert set(found["shared"]) == {"dev in train", "test in train", "test in dev"}


def test_texts_that_stand_in_two_splits_and_labels_unseen_in_train_are_told(texts: str) -> None:
    done = data("check", texts, "--text", "0", "--label", "1")
    shown = flat(done.stdout)
    assert done.exit_code == 0, done.output
    assert "1 of 2 dev items (50.0 %) also occurs in train." in shown
    assert "dev has labels that train lacks, each of which counts as an error: mixed (1)." in shown
    assert "train 3 7 5 0 3 1" in shown  # items, words, vocabulary, of one word, longest, duplicates
    assert "words <= 5 <= 10 <= 20 <= 40 <= 80 > 80 train 3 0 0 0 0 0 dev 1 1 0 0 0 0" in shown


def test_what_was_understood_is_shown_before_the_counts(tmp_path: Path) -> None:
    for split in ("train", "devel"):
        (tmp_path / f"{split}.tsv").write_text(NUMBERED.format(split))
    done = data("check", str(tmp_path))
    notes = [line[8:] for line in done.stdout.splitlines() if line.startswith("note ")]
    assert done.stdout.startswith(f"{tmp_path.name} (columns, task ner), SHA-256 ")
    assert "column 0 numbers the words of each sentence, so the words are column 1 (--words for another)" in notes
    assert "the tags are column 2 (--tags for another)" in notes
    assert "data    e.g. Ada/B-PER sees/O train/B-LOC\n" in done.stdout
    found = json.loads(data("check", str(tmp_path), "--json").stdout)
    assert (found["task"], found["format"], found["columns"]) == ("ner", "columns", {"tokens": 1, "tags": 2})
    assert (found["notes"], found["examples"][0]) == (notes, "Ada/B-PER sees/O train/B-LOC")
    assert [Path(path).name for path in found["files"]["dev"]] == ["devel.tsv"]


WHAT, SAMPLE = "check what? Give a NAME, --sweep FILE, or --train FILE", "UD_English-EWT-sample"


@each(
    "words, code, said",
    [
        (("{texts}", "--format", "tsvv"), 2, "--format: unknown 'tsvv', did you mean 'tsv'?"),
        (("{texts}", "--text", "0"), 2, "--text and --label go together"),
        (("{texts}", "--text", "0", "--label", "1", "--tags", "2"), 2, "--text and --words ask for two things"),
        ((SAMPLE, "--task", "poss"), 2, "--task: unknown 'poss', did you mean 'pos'?"),
        ((SAMPLE, "--task", "sst2"), 3, "the task classifies texts, but this corpus has tagged words"),
        (("bank", "--sweep", "my.yaml"), 2, WHAT),
        (("--dev", "a.tsv"), 2, "--dev and --test go with --train"),
    ],
)
def test_what_makes_no_sense_or_does_not_fit_is_refused(
    words: tuple[str, ...], code: int, said: str, texts: str
) -> None:
    assert said in refusal("check", *(word.format(texts=texts) for word in words), code=code)
