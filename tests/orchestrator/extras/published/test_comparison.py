"""A study beside trials of ours, on hand-made rows: the numbers by hand, and what must not stand side by side."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import pytest
from rich.console import Console

from orchestrator.extras.published import study as published
from orchestrator.extras.published.compare_command import comparison_tables, notes
from orchestrator.extras.published.comparison import Comparison, Line, compare_study
from tests.builders import make_spec, merged
from tests.examples import each
from trials.spec import TrialSpec

EWT = {"name": "UD_English-EWT", "sizes": (12544, 2001, 2077)}
CONLL = {"name": "conll2003", "sizes": (14041, 3250, 3453), "format": "columns"}
COLA = {"name": "cola", "sizes": (8551, 1043, 0), "format": "tsv"}
FIRST_2 = {"strategy": "first_k", "layers": (0, 1)}
OUR_MODEL = {"name": "distilbert/distilbert-base-multilingual-cased"}
load_study = cache(published.load_study)  # the files are long
Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def trial(spec: TrialSpec, *accuracies: float, state: str = "completed", **changes: Any) -> Rows:
    """The rows of one trial, evaluated after every epoch."""
    row = {"trial_id": spec.trial_id, "state": state, "spec": spec.model_dump_json(), "device": "cpu", "train_s": 10.0}
    epochs = [
        {"trial_id": spec.trial_id, "step": 10 * n, "epoch": float(n), "accuracy": accuracy}
        for n, accuracy in enumerate(accuracies, start=1)
    ]
    return [row | {"total_params": 1000, "trainable_params": 250} | changes], epochs


def ewt(seed: int = 42, **changes: Any) -> TrialSpec:
    """A trial as study 1 ran it, unless changed."""
    same = {"data": EWT, "model": OUR_MODEL, "train_size": 12544, "lowercase": True, "seed": seed}
    return make_spec(**merged(same, changes))


def compared(study: str, *trials: Rows, margin: float = 0.01) -> Comparison:
    rows, epochs = [row for t in trials for row in t[0]], [epoch for t in trials for epoch in t[1]]
    return compare_study(load_study(study), rows, epochs, margin=margin)


def lines_of(found: Comparison, table: str) -> list[Line]:
    return [line for line in found.lines if line.table == table]


def on_ewt(*trials: Rows) -> list[Line]:
    """What is compared of study 1's English table."""
    return lines_of(compared("emekaeze_pos", *trials), "english")


def cola(score: float, *, seed: int = 0, **changes: Any) -> Rows:
    return trial(make_spec(**merged({"task": "cola", "data": COLA, "seed": seed}, changes)), score)


def reasons(found: Comparison) -> str:
    return "\n".join(found.refused)


def shown(found: Comparison, study: str = "emekaeze_pos") -> str:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        for part in comparison_tables(found):
            console.print(part)
    return captured.get() + "\n".join(notes(found, load_study(study)))


def words(text: str) -> str:
    return " ".join(text.split())


def test_ours_is_the_mean_of_the_last_evaluation_over_seeds() -> None:
    lines = on_ewt(trial(ewt(1), 0.99, 0.95), trial(ewt(2), 0.5, 0.97))
    (line,) = [line for line in lines if line.metric == "accuracy"]
    assert line.ours.mean == pytest.approx(0.96)
    assert line.theirs.low == 0.964


def test_their_spread_enters_where_it_is_published() -> None:
    alike = compared("freezing_bert_glue", *(cola(0.78, train_size=1000, seed=n) for n in range(3)))
    (line,) = lines_of(alike, "cola_1000")
    assert line.ours.std == pytest.approx(0, abs=1e-12)
    assert (line.theirs.std, line.replication.verdict) == (0.0186, "cannot tell")
    assert line.replication.high is not None
    assert line.replication.high - 0.78 == pytest.approx(2.776 * 0.0186 / 5**0.5, rel=0.01)


SECONDS = (10.0, 10.4, 9.9)


def test_parameters_and_time_saved_have_margins_of_their_own() -> None:
    base = [trial(ewt(n), 0.96, total_params=134_741_770, trainable_params=134_741_770) for n in range(3)]
    counts: dict[str, Any] = {"trainable_params": 120_566_026}
    frozen = [trial(ewt(n, freeze=FIRST_2), 0.96, train_s=0.84 * s, **counts) for n, s in enumerate(SECONDS)]
    lines = on_ewt(*base, *frozen)
    found = {(line.metric, line.freeze.label): line.replication for line in lines}
    assert found["trainable_params", "none"].verdict == "reproduced"
    assert found["saved_params", "first 2"].verdict == "reproduced"
    assert found["saved_train", "first 2"].margin == 0.05
    assert {line.ours.std for line in lines if "params" in line.metric} == {None}  # not NaN, which is no JSON


def test_a_curve_is_compared_epoch_by_epoch_and_the_best_evaluation_counts_where_the_study_reports_it() -> None:
    lines = lines_of(compared("emekaeze_pos", trial(ewt(), 0.95, 0.96)), "english_epochs")
    assert [(line.metric, line.ours.mean) for line in lines] == [("accuracy@1", 0.95), ("accuracy@2", 0.96)]
    spec = make_spec(task="cola", data=COLA, train_size=100)
    (line,) = lines_of(compared("freezing_bert_glue", trial(spec, 0.7, 0.75, 0.6)), "cola_100")
    assert (line.ours.mean, line.theirs.low, line.theirs.std) == (0.75, 0.724, 0.0234)


def saved_train(*trials: Rows) -> Line | None:
    return next((line for line in on_ewt(*trials) if line.metric == "saved_train"), None)


def test_saved_time_is_paired_by_seed_with_the_own_baseline_of_the_device() -> None:
    base = [trial(ewt(seed), 0.96, train_s=seconds) for seed, seconds in ((1, 10.0), (2, 20.0), (3, 7.0))]
    frozen = [trial(ewt(seed, freeze=FIRST_2), 0.96, train_s=seconds) for seed, seconds in ((1, 8.0), (2, 12.0))]
    saved = saved_train(*base, *frozen)
    assert saved is not None
    assert (saved.freeze.label, saved.ours.n) == ("first 2", 2)
    assert saved.ours.mean == pytest.approx(1 - (0.8 * 0.6) ** 0.5)  # the geometric mean of the pairs
    assert saved_train(trial(ewt(), 0.96), trial(ewt(freeze=FIRST_2), 0.96, device="NVIDIA T4")) is None


def test_a_share_of_time_is_judged_on_the_device_of_the_study_only_and_seconds_never() -> None:
    verdicts = []
    for device in ("NVIDIA H100", "Tesla T4"):
        base = [trial(ewt(n), 0.96, train_s=s, device=device) for n, s in enumerate(SECONDS)]
        ours = [trial(ewt(n, freeze=FIRST_2), 0.96, train_s=0.84 * s, device=device) for n, s in enumerate(SECONDS)]
        saved = saved_train(*base, *ours)
        assert saved is not None
        verdicts.append((saved.replication.verdict, saved.replication.low is None, saved.replication.why))
    why = "a share of time depends on the device: NVIDIA H100 instead of 1x NVIDIA T4"
    assert (verdicts[0], verdicts[1][:2]) == (("cannot tell", True, why), ("reproduced", False))
    found = compared("emekaeze_pos", trial(ewt(), 0.96))
    assert not [line for line in found.lines if line.metric == "train_s"]
    assert "times of different hardware" in reasons(found)


def test_counts_of_parameters_are_compared_for_the_same_model_only() -> None:
    same = compared("emekaeze_pos", trial(ewt(), 0.96, total_params=134_741_770, trainable_params=134_741_770))
    (line,) = [line for line in lines_of(same, "parameters") if line.metric == "trainable_params"]
    assert (line.ours, line.replication.verdict) == (line.theirs, "reproduced")
    other = compared("emekaeze_pos", trial(ewt(model={"name": "starter"}), 0.96))
    assert "parameters are those of another model (starter" in words(shown(other))
    assert not [line for line in other.lines if "param" in line.metric]


SAMPLE = {"name": "sample", "sizes": (800, 500, 500)}
LOOKALIKE = {"task": "cola", "data": {**COLA, "name": "CoLA", "train": ("data/in_domain_train.tsv",)}, "train_size": 50}


@each(
    "study, spec, reason",
    [
        (
            "emekaeze_pos",
            ewt(data=SAMPLE, train_size=800),
            "ours, sample (800/500/500), is not UD_English-EWT 2.16 (12,",
        ),
        ("emekaeze_pos", ewt(data={"sizes": None}), "do not record the size of"),
        ("emekaeze_pos", ewt(data={"source": "ud:UD_English-EWT@2.17"}), "release 2.17"),
        ("emekaeze_pos", ewt(train_size=500), "a train size that the study does not have"),
        ("brown_pos", ewt(), "does not say which corpus"),
        ("freezing_bert_glue", make_spec(**LOOKALIKE), "ours, CoLA, differs from GLUE CoLA in the dev split"),
    ],
)
def test_what_is_not_the_studys_corpus_is_refused(study: str, spec: TrialSpec, reason: str) -> None:
    found = compared(study, trial(spec, 0.9))
    assert reason in reasons(found)
    assert not [line for line in found.lines if line.corpus != "any corpus"]


def test_each_reason_is_told_once_and_without_trials_every_table_is_missing() -> None:
    assert shown(compared("kairatuly_ner"), "kairatuly_ner").count("on which split") == 1
    none = compared("emekaeze_pos")
    assert (none.trials, none.lines) == (0, [])
    assert "UD_English-EWT 2.16 (12,544/2,001/2,077): we have no trial with 12,544 train items" in none.refused


def test_a_number_of_an_unknown_level_is_refused() -> None:
    rows, epochs = trial(make_spec(task="ner", data=CONLL, train_size=14041), 0.9)
    epochs[0] |= {"macro_f1": 0.8, "span_macro_f1": 0.7}
    found = compared("kairatuly_ner", (rows, epochs))
    assert found.lines == []
    (reason,) = [reason for reason in found.refused if reason.startswith("metric unknown")]
    assert reason.endswith("could be macro_f1 or span_macro_f1")
    assert "macro_f1 of english" in found.refused[reason]


def test_layers_of_a_model_of_another_height_and_other_embeddings_are_not_the_same_freeze() -> None:
    parts = {"first_k": range(2), "all_encoder": range(6), "none": range(0)}
    freezes = [{"strategy": name, "layers": tuple(layers), "embeddings": True} for name, layers in parts.items()]
    trials = [cola(0.7, train_size=50, freeze=freeze) for freeze in ({}, *freezes)]
    lines = lines_of(compared("freezing_bert_glue", *trials), "cola_50")
    assert [line.freeze.label for line in lines] == ["embeddings", "none", "all+E"]
    assert lines[0].notes[-1] == f"not in our trials: {'; '.join(f'{n} and embeddings' for n in (2, 4, 8, 10))}"
    english = on_ewt(trial(ewt(), 0.9), trial(ewt(freeze=FIRST_2 | {"embeddings": True}), 0.8))
    assert {line.freeze.label for line in english} == {"none"}


def test_what_else_differs_is_told_and_forbids_nothing() -> None:
    line, *_ = on_ewt(
        trial(ewt(model={"name": "starter"}, optim={"lr": 1e-3, "head_lr": 5e-3}, data={"name": "mine"}), 0.9)
    )
    assert line.metric == "accuracy"
    assert line.notes[0].removeprefix("protocol differs: ").split("; ") == [
        "our corpus is called mine",
        "model starter instead of distilbert-base-multilingual-cased",
        "lr 0.001 instead of 5e-05",
        "head_lr 0.005 instead of none",
        "cpu instead of 1x NVIDIA T4",
    ]
    same, *_ = on_ewt(trial(ewt(), 0.96, device="NVIDIA T4"))
    assert [note for note in same.notes if not note.startswith("not in our trials")] == []
    assert any("In our trials all freezes of a seed start from the same head" in text for text in same.errata)


def test_only_completed_trials_are_compared() -> None:
    assert compared("emekaeze_pos", trial(ewt(), 0.96, state="pruned")).lines == []


def test_a_baseline_stands_beside_both_kinds_of_frozen_dropout() -> None:
    frozen = [trial(ewt(freeze=FIRST_2, frozen_dropout=on), 0.9) for on in (True, False)]
    found = compared("emekaeze_pos", trial(ewt(), 0.96), *frozen)
    accuracies = [line for line in lines_of(found, "english") if line.metric == "accuracy"]
    differs = ["frozen_dropout off instead of on" in line.notes[0] for line in accuracies]
    assert [line.freeze.label for line in accuracies] == ["none", "first 2"] * 2
    assert differs == [False, False, True, True]


def test_errata_of_shown_numbers_stand_under_the_table() -> None:
    found = compared("emekaeze_pos", trial(ewt(), 0.96), trial(ewt(freeze=FIRST_2), 0.95, train_s=8.0))
    text = words(shown(found))
    assert "erratum: The baseline's time holds an interactive log-in" in text
    assert "erratum: One seed (42) and no interval" in text
    assert "erratum: The head of each model is drawn before Trainer sets its seed" in text
    assert "head-only training" not in text
    assert "The text once says 92.8 %" not in text
    assert "erratum in the text: The text speaks of 45 UPOS tags" in text


def test_the_tables_fit_eighty_columns() -> None:
    found = compared("emekaeze_pos", *(trial(ewt(s, freeze=f), 0.961234) for s in (1, 2, 42) for f in ({}, FIRST_2)))
    text = shown(found).partition("interval: ")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
