"""The published numbers are those of the studies, and a broken file is told by line and key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.extras.published.study import Number, Study, load_study, read_study
from tests.examples import each
from trials.errors import ConfigError


def numbers(study: Study, table: str) -> dict[tuple[str, str, int | None], Number]:
    """(freeze, metric, epoch) to the number, of one table."""
    return {(n.freeze, n.metric, n.at_epoch): n for n in study.numbers() if n.table == table}


def number(study: Study, table: str, freeze: str, metric: str, at_epoch: int | None = None) -> float:
    found = numbers(study, table)[freeze, metric, at_epoch]
    assert found.low == found.high
    return found.low


def test_the_tables_of_study_1_are_copied() -> None:
    study = load_study("emekaeze_pos")
    metrics = ("accuracy", "trainable_params", "saved_params", "train_s", "saved_train")
    tables = {
        ("english", "none"): (0.964, 134e6, 0.0, 532, 0.0),
        ("english", "all"): (0.916, 92e6, 0.313, 351, 0.34),
        ("english", "first_2"): (0.963, 120e6, 0.104, 447, 0.16),
        ("english", "first_4"): (0.961, 106e6, 0.209, 400, 0.248),
        ("english", "alternating"): (0.962, 113e6, 0.157, 423, 0.205),
        ("naija", "none"): (0.982, 134e6, 0.0, 388, 0.0),
        ("naija", "all"): (0.932, 92e6, 0.313, 196, 0.498),
        ("naija", "first_2"): (0.981, 120e6, 0.104, 249, 0.358),
        ("naija", "first_4"): (0.977, 106e6, 0.209, 223, 0.425),
        ("naija", "alternating"): (0.982, 113e6, 0.157, 236, 0.392),
    }
    assert {key: tuple(number(study, *key, metric) for metric in metrics) for key in tables} == tables


def test_the_notebook_of_study_1_is_copied() -> None:
    study = load_study("emekaeze_pos")
    assert number(study, "english_epochs", "alternating", "accuracy", 5) == 0.962381
    assert number(study, "english_progress_bars", "none", "train_s") == 8 * 60 + 22
    assert number(study, "parameters", "all", "trainable_params") == 92_214_538
    assert number(study, "english_dev_losses", "first_4", "dev_loss", 5) == 0.154047


def test_the_tables_of_study_4_are_copied() -> None:
    tables = {
        ("sst2_50", "embeddings"): (0.612, 0.610, 0.0939, 0.490, 0.743),
        ("sst2_50", "first_4"): (0.711, 0.753, 0.1024, 0.557, 0.823),
        ("sst2_200", "first_8"): (0.887, 0.885, 0.0085, 0.879, 0.901),
        ("sst2_1000", "all"): (0.509, 0.509, 0.0, 0.509, 0.509),
        ("cola_100", "none"): (0.724, 0.723, 0.0234, 0.692, 0.757),
        ("cola_500", "first_2"): (0.781, 0.787, 0.0187, 0.748, 0.796),
        ("cola_1000", "first_10"): (0.797, 0.797, 0.0034, 0.792, 0.801),
    }
    for (group, freeze), row in tables.items():
        found = numbers(load_study("freezing_bert_glue"), group)[freeze, "accuracy", None]
        assert (found.low, *found.statistics.values()) == row


def test_study_3_keeps_ranges_and_says_what_is_unknown() -> None:
    study = load_study("kairatuly_ner")
    accuracy = numbers(study, "kazakh")["three_to_six", "accuracy", None]
    assert (accuracy.low, accuracy.high) == (0.94, 0.95)
    assert study.metrics["macro_f1"].columns == ("macro_f1", "span_macro_f1")
    assert study.metrics["macro_f1"].split == "unknown"
    assert [number(study, group, "none", "train_s") for group in ("english", "kazakh")] == [266, 1609]
    assert [number(study, group, "all", "macro_f1") for group in ("english", "kazakh")] == [0.5, 0.07]


STUDY = (Path(__file__).parents[4] / "configs" / "published" / "brown_pos.yaml").read_text(encoding="utf-8")


@each(
    "right, wrong, told",
    [
        ("corpus: english", "corpus: englisch", "corpus unknown 'englisch', did you mean 'english'"),
        ("      first_3: [-0.0002,", "      first_3: [", "row 'first_3' has 2 cells for 3 columns"),
        ("      first_3: [", "      first_5: [", "freeze unknown 'first_5', did you mean 'first_3'"),
        ("test_minus_dev]", "test_minus_dev.std]", "needs the column test_minus_dev.mean beside it"),
        ("test_minus_dev]", "'test-dev']", "must be a metric, optionally with @EPOCH and .STATISTIC"),
        (
            "batch_size: 8",
            "batchsize: 8",
            r"x.yaml:\d+: settings.batchsize: unknown 'batchsize', did you mean 'bat",
        ),
        ("n_layers: 6", "nlayers: 6", r"x.yaml:\d+: nlayers: unknown 'nlayers', did you mean 'n_layers"),
    ],
)
def test_a_broken_study_is_told_by_line_and_key(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    assert right in STUDY
    (tmp_path / "x.yaml").write_text(STUDY.replace(right, wrong), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_study(tmp_path / "x.yaml")
    assert re.search(told, str(error.value))
