"""How a question is fitted to the time that somebody gives, and what is asked next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.decide import Baseline
from orchestrator.api.answering import Answers, answer
from orchestrator.api.choosing import choose
from orchestrator.api.next_steps import Climbed, NextStep, next_steps, other_tolerance
from orchestrator.api.planned_question import TimeBudget, plan_question
from orchestrator.config.notebook import CONSOLE
from orchestrator.forecast.forecast import Figure, Forecast
from orchestrator.forecast.pilot import Pilots
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SweepFile
from orchestrator.session.launch_loop import Launch
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.plan import Plan
from tests.dashboards.stores import Invented, specs, write_store
from tests.own_corpora import treebank
from trials.draft import Lookup

EPOCHS = 3  # of the recipe


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A treebank of 300 sentences for training."""
    monkeypatch.chdir(tmp_path)
    return treebank(tmp_path / "bank")


def forecast(trial_s: float) -> Callable[..., Forecast]:
    """In place of `forecast_of`: trials of 100 items and the usual epochs take so long, one at a time."""

    def made(plan: Plan, *_: object, **__: object) -> Forecast:
        seconds = {i.trial_id: trial_s * i.train_size / 100 * i.optim.epochs / EPOCHS for i in plan.workload}
        wall_s = sum(seconds.values())
        return Forecast(
            plan.sweep.name, 0.0, "cpu", 1, len(seconds), "", Figure(wall_s, wall_s, wall_s), seconds=seconds
        )

    return made


@pytest.mark.parametrize(
    ("hours", "seeds", "n_train", "n_depths"),
    [(1.0, 15, 300, 7), (0.16, 7, 300, 7), (0.1, 5, 210, 7), (0.04, 5, 100, 2), (0.01, 5, 100, 2)],
)
def test_a_plan_declares_the_seeds_that_fit_and_cuts_train_then_depths_so_that_a_first_answer_does(
    hours: float, seeds: int, n_train: int, n_depths: int, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.forecast.forecast.forecast_of", forecast(7.0))
    choice = choose("bank", tolerance=4.0, max_hours=hours, cluster="inline", dry_run=True)
    assert choice.plan is not None
    assert {spec.train_size for spec in choice.plan.trials} == {n_train}
    assert len({spec.seed for spec in choice.plan.trials}) == seeds
    assert len({spec.cell_id for spec in choice.plan.trials}) == 1 + n_depths
    again = choose("bank", tolerance=4.0, max_hours=hours, cluster="inline", dry_run=True)
    assert again.plan is not None
    assert again.plan.trials == choice.plan.trials


def test_more_time_keeps_the_seeds_of_a_plan_and_takes_all_of_a_question_that_had_a_part(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.forecast.forecast.forecast_of", forecast(7.0))
    ways = list[str]()

    def more_time(question: str, choices: Sequence[str]) -> str:
        ways.extend(choices)
        return choices[-1]

    asked = {"tolerance": 8.0, "cluster": "inline", "dry_run": True}
    choose("bank", max_hours=0.04, **asked)
    kept = SweepFile(bank.parent / "choose-bank.yaml")
    part = kept.part()
    assert part is not None
    whole = choose("bank", max_hours=part.of_all, **asked)
    assert (kept.train_size(), kept.depths(), kept.part(), kept.seeds()) == (None, (), None, 5)
    assert choose("bank", max_hours=9.0, **asked).plan.trials == whole.plan.trials  # type: ignore[union-attr]
    kept.path.unlink()
    choose("bank", max_hours=0.04, ask=more_time, **asked)
    assert ways[-1] == f"--max-hours {part.of_all:g}"
    assert kept.part() is None


@pytest.mark.parametrize(
    ("hours", "depths", "says"), [(0.9, (), "a first answer after about 22 min"), (0.3, (2, 6), "")]
)
def test_epochs_that_the_baseline_took_to_learn_are_paid_with_depths_never_with_seeds_or_train(
    hours: float, depths: tuple[int, ...], says: str, bank: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("orchestrator.forecast.forecast.forecast_of", forecast(7.0))
    launch = Launch.begin(find_cluster("inline"), "results", CONSOLE, max_hours=hours)
    planned = plan_question(ChooseOptions(data="bank", tolerance=4.0, max_hours=hours), bank.parent, launch)
    question, lookup = planned.question, Lookup()
    optim = {**question.recipe["optim"], "epochs": 3 * EPOCHS}
    longer = replace(question, recipe={**question.recipe, "optim": optim})
    timed = TimeBudget(bank.parent, launch, lookup, Pilots(launch.say, 1)).fit_again(longer)
    assert (timed.question.depths, timed.question.seeds, timed.n_train) == (depths, question.seeds, 300)
    told = " ".join(capsys.readouterr().err.split())
    assert says in told
    assert ("with 9 epochs, more than the" in told) == bool(depths)


@pytest.mark.parametrize(("loss", "proposed"), [(0.05, "6.6"), (0.6, "14.5")])
def test_no_tolerance_is_proposed_that_gives_up_what_the_baseline_learned_but_half_of_that(
    loss: float, proposed: str, tmp_path: Path
) -> None:
    """It scores 29.1 points more than the best constant prediction."""
    scores = Invented(noise=0.01, score=lambda spec: 0.9 - loss * (spec.freeze.depth > 0))
    store = write_store(tmp_path / "store", specs(seeds=range(5), train_sizes=(200,)), scores)
    (found,) = answer(store.address, tolerance=100 * loss)
    assert (found.freeze, bool(found.trade_offs)) == (None, loss < 0.1)
    (step,) = other_tolerance(ChooseOptions(data="x", tolerance=100 * loss), found, "choose-x")
    asks = "permafrost answer --store results --sweep choose-x" if found.trade_offs else "permafrost choose x"
    assert step.command.startswith(asks)
    assert f"--tolerance {proposed}" in step.command


@pytest.mark.parametrize(
    ("score", "is_over", "brings"),
    [
        (61.0, False, ["tries what else may help"]),
        (61.0, True, ["asks again with 30% of train as dev", "asks again with 5 folds"]),
        (50.0, True, []),
    ],
)
def test_a_baseline_that_has_not_learned_goes_on_with_what_was_not_tried_and_more_dev_only_for_a_better_score(
    score: float, is_over: bool, brings: list[str], bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.forecast.forecast.forecast_of", forecast(0.01))
    coin = Invented(noise=0.001, score=lambda spec: 0.1)
    store = write_store(bank.parent / "coin", specs(seeds=range(5), train_sizes=(200,)), coin)
    answers = answer(store.address)
    best = replace(answers[0].decided_by.baseline, score=score, constant=54.0)
    steps = _next(bank, answers, climbed=(best, is_over))
    assert [step.brings.startswith(words) for step, words in zip(steps, brings, strict=True)] == [True] * len(brings)


def test_where_dev_is_too_small_for_the_tolerance_more_of_train_and_folds_are_offered(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.forecast.forecast.forecast_of", forecast(0.01))
    scores = Invented(noise=0.02, score=lambda spec: 0.9 - 0.01 * (spec.freeze.depth > 0))
    store = write_store(bank.parent / "open", specs(seeds=range(5), train_sizes=(200,)), scores)
    commands = " ".join(step.command for step in _next(bank, answer(store.address)))
    assert "--held-out" in commands
    assert "--folds" in commands
    goes_on = [step for step in _next(bank, answer(store.address), is_over=False) if "planned seeds" in step.brings]
    assert ["unlikely" in step.brings for step in goes_on] == [answer(store.address)[0].headline == "Not decided"]
    in_folds = " ".join(step.command for step in _next(bank, answer(store.address), folds=5))
    assert "--held-out" not in in_folds


def _next(
    bank: Path, answers: Answers, *, climbed: tuple[Baseline, bool] | None = None, is_over: bool = True, **asked: Any
) -> list[NextStep]:
    """What follows a search on a bank that wants no more trials and had these answers, after its rungs."""
    launch = Launch.begin(find_cluster("inline"), "results", CONSOLE, max_hours=1.0)
    planned = plan_question(ChooseOptions(data="bank", yes=True, **asked), bank.parent, launch)
    rungs = None if climbed is None else Climbed(planned, *climbed)
    return list(next_steps(planned, answers, launch, rungs, is_over=is_over))
