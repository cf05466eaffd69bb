"""What a trial reports of its best weights, in the store: a row a label, a row a sentence, a map of test metrics."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.execution.trial_rows import report_rows
from orchestrator.store import ResultStore
from orchestrator.store.schema import PREDICTIONS, TAGS
from tests.builders import write_table, write_tagged_treebank, write_texts
from tests.trials.conftest import save_tiny_model
from trials.corpora.corpus import Sentence
from trials.draft import Lookup, TrialDraft
from trials.record import EpochRecord, State
from trials.run import run_trial
from trials.spec import Predictions, TrialSpec
from trials.tasks.task_corpus import read_corpus
from trials.training.final_scores import AUTO_WORDS

OPTIM = {"lr": 1e-3, "batch_size": 8, "epochs": 1}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tagged_treebank(tmp_path_factory.mktemp("bank"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


@cache
def resolved(folder: Path, task: str, **settings: Any) -> TrialSpec:
    """A trial of a tiny model, which lies beside the corpus."""
    model = folder.parent / "model"
    if not model.exists():
        save_tiny_model("distilbert", model, positions=128)
    content = {"task": task, "data": {"folder": str(folder)}, "model": str(model), "optim": OPTIM, **settings}
    return TrialDraft.model_validate(content).resolve(Lookup())


@cache
def run(spec: TrialSpec, predictions: Predictions) -> list[EpochRecord]:
    return list(run_trial(spec, predictions=predictions))


def recorded(store: ResultStore, spec: TrialSpec, predictions: Predictions = "auto") -> list[EpochRecord]:
    recorder, records = Recorder(store), run(spec, predictions)
    recorder.started(spec, 1)
    for record in records:
        recorder.evaluated(spec, record)
    recorder.ended(End(spec, State.COMPLETED))
    recorder.close()
    return records


def test_tags_read_back_as_they_were_reported_with_every_column(store: ResultStore, treebank: Path) -> None:
    spec = resolved(treebank, "pos")
    reports = recorded(store, spec)[-1].reports
    found = store.tags().to_pylist()
    expected = [row for report in reports for row in report_rows(spec, 1, report)["tags"]]
    key = ("trial_id", "split", "level", "tag")
    assert found == sorted(expected, key=lambda row: [row[name] for name in key])
    assert {row["split"] for row in found} == {"dev", "test"}
    assert set(expected[0]) == set(TAGS.names)
    assert set(report_rows(spec, 1, reports[0])["predictions"][0]) == set(PREDICTIONS.names)


def test_predictions_read_back_word_by_word_with_the_corpus_forms_and_give_the_accuracy(
    store: ResultStore, treebank: Path
) -> None:
    spec = resolved(treebank, "pos")
    recorded(store, spec)
    corpus, (trial,) = read_corpus("pos", spec.data), store.trials().to_pylist()
    for split, items, metrics in (("dev", corpus.dev, "best_metrics"), ("test", corpus.test, "test_metrics")):
        rows = [row for row in store.predictions(spec.trial_id).to_pylist() if row["split"] == split]
        assert [row["sentence"] for row in rows] == list(range(len(items)))
        for row, item in zip(rows, items, strict=True):
            assert isinstance(item, Sentence)
            assert (tuple(row["forms"]), tuple(row["gold"])) == (item.forms, item.tags)
            assert len(row["predicted"]) == len(row["probability"]) == len(item.forms)
            assert all(0 < p <= 1 for p in row["probability"])
        pairs = [pair for row in rows for pair in zip(row["gold"], row["predicted"], strict=True)]
        assert dict(trial[metrics])["accuracy"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


def test_a_corpus_without_a_test_split_has_null_test_metrics(store: ResultStore, tmp_path: Path) -> None:
    bank = write_tagged_treebank(tmp_path / "bank")
    (bank / "test.conllu").unlink()
    spec = resolved(bank, "pos")
    recorded(store, spec)
    (trial,) = store.trials().to_pylist()
    assert (trial["test_metrics"], trial["test_score"]) == (None, None)
    assert set(store.predictions(spec.trial_id)["split"].to_pylist()) == {"dev"}


# --- Which predictions are kept


@pytest.mark.parametrize(
    ("task", "predictions", "kept"),
    [("pos", "none", False), ("pos", "auto", True), ("sst2", "auto", False), ("sst2", "all", True)],
)
def test_predictions_are_kept_as_the_sweep_says(
    task: str, predictions: Predictions, kept: bool, store: ResultStore, treebank: Path, texts: Path
) -> None:
    spec = resolved(texts if task == "sst2" else treebank, task)
    recorded(store, spec, predictions)
    assert (len(store.predictions(spec.trial_id)) > 0) == kept
    assert len(store.tags()) > 0


def test_auto_keeps_no_predictions_of_a_large_split(treebank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolved(treebank, "pos")
    n_words = len(run(spec, "auto")[-1].reports[0].gold)
    monkeypatch.setattr("trials.training.final_scores.AUTO_WORDS", n_words - 1)
    report = list(run_trial(spec))[-1].reports[0]
    assert (report.gold, report.predicted, report.names) == ((), (), ())
    assert report.tags == run(spec, "auto")[-1].reports[0].tags
    assert n_words < AUTO_WORDS


# --- Texts, numbers, words cut off


def test_a_regressions_numbers_are_kept_as_they_are(store: ResultStore, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        rows = [{"sentence1": f"a{n}", "sentence2": split, "label": n / 4} for n in range(12)]
        write_table(tmp_path / "sts" / f"{split}.tsv", rows)
    spec = resolved(tmp_path / "sts", "stsb")
    (report,) = recorded(store, spec, "all")[-1].reports
    rows = store.predictions(spec.trial_id).to_pylist()
    assert [float(row["gold"][0]) for row in rows] == [n / 4 for n in range(12)]
    assert [float(row["predicted"][0]) for row in rows] == list(report.predicted)
    assert {row["probability"][0] for row in rows} == {None}
    assert len(store.tags()) == 0


def test_a_word_cut_off_is_null_in_the_store(store: ResultStore, treebank: Path) -> None:
    spec = resolved(treebank, "pos", max_length=4)
    recorded(store, spec)
    rows = store.predictions(spec.trial_id).to_pylist()
    cut = [(tag, p) for row in rows for tag, p in zip(row["predicted"], row["probability"], strict=True) if tag is None]
    assert len(cut) > 0
    assert {p for _, p in cut} == {None}
