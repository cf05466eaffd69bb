"""Named-entity recognition: one way of reading three schemes, spans and tokens, and what a word cut off counts as."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.examples import each
from tests.trials.conftest import TrialMaker, records_of
from trials.cache.encoding import encode_for
from trials.corpora.corpus import Sentence
from trials.errors import DataError
from trials.sources.places.corpus_draft import DataDraft
from trials.tasks import TASKS
from trials.tasks.task import NO_PREDICTION
from trials.tasks.task_corpus import read_corpus

NER = TASKS["ner"]
NAMES = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")

# Two entities of one type side by side, one of a single word, one at the end.
WORDS = ("ab", "ac", "ad", "ba", "bb", "ca")
WRITTEN = {
    "iob1": ("I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-LOC"),
    "iob2": ("B-PER", "I-PER", "B-PER", "O", "B-LOC", "I-LOC"),
    "bioes": ("B-PER", "E-PER", "S-PER", "O", "B-LOC", "E-LOC"),
}


def write_scheme(folder: Path, scheme: str) -> Path:
    """The same sentence in every split, but for its last word, in a scheme."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        lines = zip((*WORDS, split), (*WRITTEN[scheme], "O"), strict=True)
        (folder / f"{split}.txt").write_text("".join(f"{word} NN {tag}\n" for word, tag in lines) + "\n")
    return folder


@each("said", ["auto", "as written"])
@each("scheme", WRITTEN)
def test_every_scheme_is_read_as_the_same_tags(scheme: str, said: str, tmp_path: Path) -> None:
    draft = {"folder": str(write_scheme(tmp_path / scheme, scheme)), "scheme": "auto" if said == "auto" else scheme}
    corpus = read_corpus("ner", DataDraft.model_validate(draft).resolve(NER.columns))
    for split in (corpus.train, corpus.dev, corpus.test):
        (sentence,) = split
        assert isinstance(sentence, Sentence)
        assert sentence.tags == (*WRITTEN["iob2"], "O")


def test_a_corpus_in_another_scheme_than_is_said_is_refused_with_file_and_line(tmp_path: Path) -> None:
    folder = write_scheme(tmp_path / "bank", "iob1")
    data = DataDraft(folder=str(folder), scheme="iob2").resolve(NER.columns)
    with pytest.raises(DataError, match=r"bank, train split: .*train\.txt:1: 'ab' has.*`scheme`, which is `iob2`"):
        read_corpus("ner", data)


def test_a_task_of_single_tags_reads_them_as_they_are(tmp_path: Path) -> None:
    data = DataDraft(folder=str(write_scheme(tmp_path / "bank", "bioes"))).resolve()
    (sentence,) = read_corpus("pos", data).train
    assert isinstance(sentence, Sentence)
    assert sentence.tags == (*WRITTEN["bioes"], "O")


def test_a_word_cut_off_is_no_span_and_a_wrong_token() -> None:
    gold = np.array([NAMES.index(tag) for tag in ("B-PER", "I-PER", "O")])
    for lost in (1, 2):
        predicted = np.where(np.arange(3) == lost, NO_PREDICTION, gold)
        measured = NER.measure(gold, predicted, np.array([0]), NAMES)
        assert measured["accuracy"] == pytest.approx(2 / 3)
        assert measured["span_f1"] == (0.0 if lost == 1 else 1.0)


def test_a_trial_selects_by_spans_and_reports_both_levels(make_trial: TrialMaker, tmp_path: Path) -> None:
    spec = make_trial(
        task="ner",
        data={"folder": str(write_scheme(tmp_path / "bank", "bioes"))},
        train_size=1,
        optim={"lr": 1e-2, "epochs": 30},
    )
    records = records_of(spec, predictions="all")
    last, data = records[-1], encode_for(spec)
    assert [r.score for r in records] == [r.metrics["span_f1"] for r in records]
    assert max(r.score for r in records) == 1.0  # it has seen all words but one
    report = last.reports[1]
    assert report.names == data.names == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    assert [row.level for row in report.tags] == ["span"] * 2 + ["token"] * 5
    gold, predicted = (np.array(column, dtype=np.int64) for column in (report.gold, report.predicted))
    assert NER.measure(gold, predicted, data.test.starts, data.names) == last.test_metrics
