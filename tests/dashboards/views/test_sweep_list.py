"""The sweeps of a store: how far each is, where its answer comes from, and which of them opens first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboards.app.app import make_app
from dashboards.app.callbacks import header_words
from dashboards.data.frames import Frames, Snapshot
from dashboards.data.selection import PageQuery, Selection, select
from dashboards.views.kit.cards import answers_of_page
from dashboards.views.sweep_list import answers_of_sweep, front_sweep, sweep_list
from tests.dashboards.stores import START, STRATEGIES, Invented, specs, write_store


@pytest.fixture(scope="module")
def two_sweeps(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """One is complete, the other has no row."""
    folder = tmp_path_factory.mktemp("two") / "s"
    store = write_store(folder, specs(train_sizes=(200,)), sweep="one")
    write_store(folder, specs(train_sizes=(400,)), Invented(state=lambda spec: None), sweep="two")
    return select(Frames(store).refresh(), PageQuery(sweep="two"))


def test_a_store_with_several_sweeps_lists_them_with_their_progress_and_last_row(two_sweeps: Selection) -> None:
    words = str(sweep_list(two_sweeps))
    assert "one', href='/?sweep=one'" in words
    assert "finished, 15 of 15 trials completed', ', last row '" in words
    assert "stopped, 0 of 15 trials completed'" in words
    last = max(two_sweeps.snapshot.sweeps["one"].trials["time"]).timestamp()
    assert f"'data-time': {last}" in words or f"data-time={last}" in words


def test_the_header_has_the_last_row_of_its_sweep_as_the_list_has(two_sweeps: Selection) -> None:
    one = select(two_sweeps.snapshot, PageQuery(sweep="one"))
    assert header_words(one)[0]["last_row"] == two_sweeps.snapshot.sweeps["one"].last_row
    assert header_words(two_sweeps)[0] == {"words": "two: stopped", "last_row": None}


def test_another_sweep_is_opened_with_the_same_tolerance_cost_and_theme(two_sweeps: Selection) -> None:
    query = two_sweeps.query.but(tolerance=0.5, cost="train_s", theme="dark", size=(400,))
    words = str(sweep_list(replace(two_sweeps, query=query)))
    assert "href='/?sweep=one&cost=train_s&tolerance=0.5&theme=dark'" in words


def test_the_list_comes_without_answers_and_says_where_each_is(two_sweeps: Selection) -> None:
    words = str(sweep_list(two_sweeps))
    assert words.count("/answers.txt?") == 1  # the other sweep has no completed trial
    assert "/answers.txt?sweep=one&tolerance=1#15" in words


def test_answers_are_fetched_at_the_tolerance_of_the_page_which_the_list_says(two_sweeps: Selection) -> None:
    words = str(sweep_list(replace(two_sweeps, query=two_sweeps.query.but(tolerance=4.0))))
    assert "/answers.txt?sweep=one&tolerance=4#15" in words
    assert "lose at most 4 points" in words
    (fetched,) = answers_of_sweep(two_sweeps.snapshot, PageQuery(sweep="one", tolerance=4.0))
    assert fetched.tolerance == 4


def test_the_answer_that_is_fetched_is_that_of_the_sweeps_own_page(two_sweeps: Selection) -> None:
    (fetched,) = answers_of_sweep(two_sweeps.snapshot, PageQuery(sweep="one"))
    (shown,) = answers_of_page(select(two_sweeps.snapshot, PageQuery(sweep="one"))).answers
    assert fetched is shown


CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - 0.001 * spec.freeze.depth)
OPEN = Invented(noise=0.05, score=lambda spec: 0.8)


def _snapshot(folder: Path, **sweeps: tuple[int, Invented]) -> Snapshot:
    """Sweeps of a train size each, the oldest first."""
    for number, (name, (size, invented)) in enumerate(sweeps.items()):
        trials = specs(train_sizes=(size,), strategies=STRATEGIES[:3])
        store = write_store(folder, trials, invented, sweep=name, started=START + number)
    return Frames(store).refresh()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A sweep whose answer is decided, and a newer one whose answer is not."""
    return _snapshot(tmp_path_factory.mktemp("decided") / "s", decided=(200, CLEAR), newest=(400, OPEN))


def test_the_sweep_with_most_decided_answers_opens_else_the_newest(snapshot: Snapshot, tmp_path: Path) -> None:
    assert front_sweep(snapshot) == "decided"
    assert front_sweep(_snapshot(tmp_path / "b", older=(200, OPEN), newest=(400, OPEN))) == "newest"
    assert front_sweep(_snapshot(tmp_path / "c", older=(200, CLEAR), newest=(400, CLEAR))) == "newest"


def test_a_model_trained_from_an_answer_does_not_open_in_place_of_its_question(tmp_path: Path) -> None:
    sweeps = {"choose-bank": (200, OPEN), "train-bank": (400, OPEN)}
    assert front_sweep(_snapshot(tmp_path / "a", **sweeps)) == "choose-bank"
    assert front_sweep(_snapshot(tmp_path / "b", **{"train-bank": (400, OPEN)})) == "train-bank"


@pytest.mark.parametrize(
    ("asked", "location"),
    [("", "./?sweep=decided"), ("?tolerance=2", "./?sweep=decided&tolerance=2"), ("?sweep=newest", None)],
)
def test_the_first_address_leads_there_and_keeps_what_it_asks(
    snapshot: Snapshot, asked: str, location: str | None
) -> None:
    answer = make_app(Frames(snapshot.store)).server.test_client().get(f"/{asked}")
    assert answer.headers.get("Location") == location


def test_what_a_caller_names_opens_first(snapshot: Snapshot) -> None:
    client = make_app(Frames(snapshot.store), PageQuery(sweep="newest", tolerance=3.0)).server.test_client()
    assert client.get("/").headers["Location"] == "./?sweep=newest&tolerance=3"
    assert client.get("/?tolerance=5").headers["Location"] == "./?sweep=newest&tolerance=5"


def test_the_server_sends_the_answer_in_words_before_any_script_has_run(snapshot: Snapshot) -> None:
    client = make_app(Frames(snapshot.store)).server.test_client()
    first = client.get("/?sweep=decided&tolerance=4").text
    assert "<p>To lose at most 4 points:</p>" in first
    assert first.index("reeze ") < first.index("<script")
    assert "Loading figures" in client.get("/scores?sweep=decided").text
