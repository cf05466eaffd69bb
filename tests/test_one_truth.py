"""A number that two surfaces show is one number: terminal, `compare`, model card, report and dashboard of one store."""

from __future__ import annotations

import functools
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from dashboards.cli import app
from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, parse_query, select
from dashboards.report.files import write_report
from dashboards.views.compare import prepare_scores
from dashboards.views.kit.cards import answers_of_page, cards_or_table, settings_of, settings_table
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.registry import PARTS
from dashboards.views.trial_page import trial_page
from dashboards.views.trials import RowsRequest, answer_rows
from docs.findings import GRIDS, ROOT, STORE, TOLERANCES, bought_within
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.api.answering import Answers, answer
from orchestrator.api.model_card import model_card
from orchestrator.config.quantities import points
from orchestrator.extras.published.comparison import Comparison, compare_study
from orchestrator.extras.published.study import load_study
from orchestrator.session.tables import cell_tables
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import stored_spec
from tests.builders import first_k, make_spec
from tests.dashboards.stores import Invented, specs, write_store
from tests.dashboards.views.made import selected
from tests.examples import each
from trials.spec import TrialSpec

EWT = {"name": "UD_English-EWT", "sizes": (12544, 2001, 2077)}
MODEL = {"name": "distilbert/distilbert-base-multilingual-cased"}
TRIALS = specs(seeds=range(3), train_sizes=(12544,), data=EWT, model=MODEL, lowercase=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("one") / "store", TRIALS)


@pytest.fixture(scope="module")
def report(store: ResultStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(Frames(store), PageQuery(sweep="made-up"), folder, pictures=False)
    return folder


def csv(report: Path, name: str) -> pd.DataFrame:
    (path,) = report.rglob(f"*{name}.csv")
    return pd.read_csv(path).set_index("frozen")


@functools.cache
def part(store: ResultStore, name: str, search: str = "") -> pd.DataFrame:
    """The table of a dashboard's part."""
    snapshot = Frames(store).refresh()
    query, _ = parse_query(f"?sweep=made-up{search}")
    return PARTS[name].table(PARTS[name].prepare(select(snapshot, query)))


@functools.cache
def terminal(store: ResultStore) -> dict[str, list[str]]:
    """The words of each row of the terminal's table, by freeze."""
    console = Console(width=100, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        for table in cell_tables(summary(store)):
            console.print(table)
    strip, share = r"[■□]+ [■□]+ ", r"\S+ %"
    saved = rf"(?: +({share}) +({share}) +({share} \(\S+ to \S+\)))?"
    row = rf"(?:{strip})?(.+?) +(\d+/\d+) +(\S+ ± +\S+) +(\S+){saved} *"
    found = filter(None, (re.fullmatch(row, line) for line in captured.get().splitlines()))
    return {each[1]: list(each.groups()[1:]) for each in found}


@functools.cache
def summary(store: ResultStore) -> list[CellSummary]:
    return summarise(TRIALS, store.trials().to_pylist())


@functools.cache
def compared(store: ResultStore) -> Comparison:
    return compare_study(load_study("emekaeze_pos"), store.trials().to_pylist(), store.epochs().to_pylist())


def ours(store: ResultStore, metric: str, freeze: str) -> float:
    """Our mean in `compare`."""
    lines = [line for line in compared(store).lines if line.table == "english"]
    (line,) = [line for line in lines if (line.metric, line.freeze.label) == (metric, freeze)]
    return line.ours.mean


FROZEN = ["first 2", "first 4", "alternating", "all"]


@each("freeze", FROZEN)
def test_saved_time_is_one_number(store: ResultStore, report: Path, freeze: str) -> None:
    row = csv(report, "cost-savings").query("cost == 'training time'").loc[freeze]
    mean, low, high = row.iloc[3:6].tolist()
    assert 100 * ours(store, "saved_train", freeze) == pytest.approx(mean, abs=1e-3)
    table = part(store, "cost-savings").query("cost == 'training time'").set_index("frozen")
    assert table.loc[freeze, "saved (%)"] == row["saved (%)"]
    assert terminal(store)[freeze][5] == f"{mean:.0f} % ({low:.0f} to {high:.0f})"


@each("freeze", FROZEN)
def test_saved_parameters_are_one_number(store: ResultStore, report: Path, freeze: str) -> None:
    mean = ours(store, "saved_params", freeze)
    row = csv(report, "cost-savings").query("cost == 'trainable parameters'").loc[freeze]
    assert 100 * mean == pytest.approx(row["saved (%)"], abs=1e-3)
    assert terminal(store)[freeze][3] == f"{100 * mean:.1f} %"


@each("freeze", ["none", *FROZEN])
def test_mean_deviation_and_interval_of_a_score_are_one_each(store: ResultStore, report: Path, freeze: str) -> None:
    row = csv(report, "depth-table").loc[freeze]
    columns = ["mean (%)", "95 % from (%)", "95 % to (%)"]
    assert 100 * ours(store, "accuracy", freeze) == pytest.approx(row["mean (%)"], abs=1e-4)
    last = csv(report, "curves-quality").loc[freeze].query("epoch == 5").iloc[0]
    assert last[["mean", "95 % from", "95 % to"]].tolist() == pytest.approx(row[columns].tolist(), abs=1e-4)
    assert terminal(store)[freeze][1] == f"{row['mean (%)']:.2f} ± {row['sd (points)']:.2f}"


@each("freeze", ["none", *FROZEN])
def test_training_time_and_flops_are_one_number(store: ResultStore, report: Path, freeze: str) -> None:
    mean = next(cell.training_cost_s for cell in summary(store) if cell.spec.freeze.label == freeze)
    costs = part(store, "cost-table").set_index("frozen")
    if freeze == "none":
        assert mean == pytest.approx(costs.iloc[0]["baseline: training time (s)"], abs=1e-4)
    else:
        table = costs.loc[freeze]
        assert mean == pytest.approx(table["training time (s)"], abs=1e-4)
        row = csv(report, "cost-savings").query("cost == 'training FLOPs'").loc[freeze]
        assert table["training FLOPs saved (%)"] == pytest.approx(row["saved (%)"], abs=0.005)
        assert terminal(store)[freeze][4] == f"{row['saved (%)']:.1f} %"


@each("freeze", FROZEN)
def test_the_difference_to_the_baseline_is_one_number(store: ResultStore, report: Path, freeze: str) -> None:
    row = csv(report, "depth-forest").loc[freeze]
    shown = part(store, "depth-forest").set_index("frozen").loc[freeze]
    columns = ["loss (points)", "from (points)", "to (points)"]
    assert shown[columns].tolist() == pytest.approx(row[columns].tolist(), nan_ok=True)
    means = {cell.spec.freeze.label: cell.score_mean or 0.0 for cell in summary(store)}
    assert row["loss (points)"] == pytest.approx(100 * (means["none"] - means[freeze]), abs=1e-4)


def test_the_model_card_says_the_terminals_mean_and_deviation(store: ResultStore) -> None:
    row = next(row for row in store.trials().to_pylist() if row["freeze_strategy"] == "first_k")
    spec: TrialSpec = stored_spec(row["spec"], row["trial_id"])
    card = model_card(spec, row, store, score=row["best_score"], licence="none")
    (found,) = re.findall(r": ([\d.]+) ± ([\d.]+) \(mean ± standard deviation\)", card)
    cell = next(cell for cell in summary(store) if cell.spec.cell_id == spec.cell_id)
    assert found == (points(cell.score_mean or 0), points(cell.score_std or 0))
    shown = part(store, "depth-forest").set_index("frozen").loc[spec.freeze.label]
    ((lost, *ends),) = re.findall(r"over 3 paired seeds: on dev it loses (\S+) points \((\S+) to (\S+)\)", card)
    columns = ["loss (points)", "from (points)", "to (points)"]
    assert [float(lost), *map(float, ends)] == pytest.approx(shown[columns].tolist(), abs=0.006)


def test_the_answer_is_one_object_in_terminal_report_and_dashboard(store: ResultStore, report: Path) -> None:
    query, _ = parse_query("?sweep=made-up")
    (shown,) = answers_of_page(select(Frames(store).refresh(), query)).answers
    printed = CliRunner().invoke(app, ["answer", "--store", str(store.root), "--json"])
    assert json.loads(printed.stdout) == [shown.as_json()]
    assert html.escape(shown.sentence) in (report / "report.html").read_text(encoding="utf-8")
    assert shown.sentence in part(store, "answer-cards")["answer"].tolist()


def test_how_many_more_seeds_would_decide_is_one_number(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", specs(train_sizes=(200,), seeds=range(4)))
    selection = selected(store, "?tolerance=1")
    (answer,) = answers_of_page(selection).answers
    assert answer.further_seeds
    assert f"about {answer.further_seeds} more seeds" in answer.sentence
    assert selection.sweep is not None
    card = str(cards_or_table([answer], selection.sweep, "results"))
    assert f"About {answer.further_seeds} more seeds would" in card
    table = settings_table([answer], "training FLOPs").set_index("frozen")
    assert table.loc[answer.about, "further seeds"] == answer.further_seeds
    printed = CliRunner().invoke(app, ["answer", "--store", str(store.root), "--tolerance", "1", "--json"])
    assert [each["further_seeds"] for each in json.loads(printed.stdout)] == [answer.further_seeds]


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [TOLERANCES[0], TOLERANCES[-1]])
def test_findings_answers_and_pages_leave_out_the_same_questions(tolerance: float) -> None:
    """Those of FreezeBench of which nothing was learned, or of which the tolerance gives up all that was."""
    shipped = open_store(str(ROOT / STORE))
    snapshot, n_vacuous = Frames(shipped).refresh(), 0
    for sweep in GRIDS:
        query = PageQuery(sweep=sweep, tolerance=tolerance)
        pages = answers_of_page(select(snapshot, query), most=99).answers
        told = {each.heading: each for each in answer(shipped.address, sweep, tolerance=tolerance)}
        in_findings = {each.heading for each in of_findings(sweep) if bought_within(each, tolerance) == ""}
        on_pages = {each.heading for each in pages if not settings_of(each)["within"].any() and is_vacuous(each)}
        assert in_findings == on_pages == {heading for heading, each in told.items() if is_vacuous(each)}
        assert not any(told[heading].trade_offs and told[heading].freeze for heading in in_findings)
        assert all(settings_of(told[heading])["chance"].isna().all() for heading in in_findings)
        n_vacuous += len(in_findings)
    assert n_vacuous


@functools.cache
def of_findings(sweep: str) -> Answers:
    return answer(str(ROOT / STORE), sweep)


def is_vacuous(each: Answer) -> bool:
    """What its words say."""
    return each.headline == "Not learned" or "gives up all that was learned" in each.sentence


THAWED = [*(make_spec(seed=seed) for seed in range(5))]
THAWED += [make_spec(freeze=first_k(2), thaw_every=2, seed=seed) for seed in range(5)]


@pytest.fixture(scope="module")
def thawed(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("thawed") / "store", THAWED, Invented(noise=0.001))


def _card(store: ResultStore) -> str:
    row = next(row for row in store.trials().to_pylist() if row["trial_id"] == THAWED[-1].trial_id)
    return model_card(THAWED[-1], row, store, score=row["best_score"], licence="none")


def _answer_card(store: ResultStore) -> str:
    selection = selected(store)
    assert selection.sweep is not None
    return answers_of_page(selection).answers[0].words.brief


_PICKED = f"{THAWED[0].trial_id},{THAWED[-1].trial_id}"
SAYS_WHAT_IT_FROZE: dict[str, Callable[[ResultStore], str]] = {
    "status": lambda store: CliRunner().invoke(app, ["status", "--store", str(store.root)]).stdout,
    "status --trials": lambda store: CliRunner().invoke(app, ["status", "--trials", "--store", str(store.root)]).stdout,
    "answer": lambda store: CliRunner().invoke(app, ["answer", "--json", "--store", str(store.root)]).stdout,
    "model card": _card,
    "answer card": _answer_card,
    "grid of trials": lambda store: str(answer_rows(selected(store), RowsRequest())),
    "comparison": lambda store: prepare_scores(selected(store, f"?trials={_PICKED}")).to_csv(),
    "page of a trial": lambda store: str(trial_page(selected(store).snapshot, THAWED[-1].trial_id, LIGHT)),
}


@each("surface", SAYS_WHAT_IT_FROZE)
def test_what_a_trial_unfroze_is_said_in_the_same_words(thawed: ResultStore, surface: str) -> None:
    words = " ".join(SAYS_WHAT_IT_FROZE[surface](thawed).split())
    assert "froze 2 to 1 of 6 layers, 1.6 on average over steps" in words
