"""What the metrics say of a sweep, told to a ledger in the place of Ray."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.monitoring.metrics import METRICS, MeteredLaunch, MetricsListener
from orchestrator.monitoring.progress import Ending
from tests.builders import make_record, make_spec
from trials.state import State

BEGAN = 1_750_000_000.0
DONE = Ending("done", None, {State.COMPLETED: 1}, 0, 1.0)
Labels = frozenset[tuple[str, str]]


class Ledger:
    """Keeps what it is told, and holds every call to the table."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, Labels], float] = {}
        self.observed: list[float] = []

    def add(self, name: str, amount: float, **labels: str) -> None:
        self._check(name, "counter", amount, labels)
        key = (name, frozenset(labels.items()))
        self.values[key] = self.values.get(key, 0.0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        self._check(name, "gauge", value, labels)
        self.values[name, frozenset(labels.items())] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._check(name, "histogram", value, labels)
        self.observed.append(value)

    def _check(self, name: str, kind: str, value: float, labels: dict[str, str]) -> None:
        assert METRICS[name].kind == kind
        assert set(labels) == {"sweep", *METRICS[name].labels}
        assert value >= 0

    def __getitem__(self, name: str) -> float:
        return sum(value for (key, _), value in self.values.items() if key == f"permafrost_{name}")

    def of(self, name: str, **labels: str) -> float:
        return self.values[f"permafrost_{name}", frozenset({"sweep": "tiny", **labels}.items())]


def begun(planned: int = 2, disk: Path | None = None) -> tuple[MetricsListener, Ledger]:
    listener = MetricsListener(MeteredLaunch("tiny", planned, 1, "results", "local", disk), now=lambda: BEGAN)
    ledger = Ledger()
    listener.begin(ledger)
    return listener, ledger


def test_a_trial_moves_from_the_queue_to_a_worker_to_its_state_and_back_where_it_is_tried_again() -> None:
    listener, ledger = begun()
    spec, moves = make_spec(), list[tuple[float, float]]()
    story: tuple[Callable[[], None], ...] = (
        partial(listener.started, spec, 1),
        partial(listener.retried, spec, State.LOST, None),
        partial(listener.started, spec, 2),
        partial(listener.ended, spec, State.COMPLETED, None),
    )
    for move in story:
        move()
        moves.append((ledger["trials_running"], ledger["trials_queued"]))
    assert moves == [(1, 1), (0, 2), (1, 1), (0, 1)]
    assert (ledger.of("trials_total", state="completed"), ledger.of("retries_total", state="lost")) == (1, 1)


def test_work_counts_once_though_an_attempt_tells_its_checkpoints_records_again() -> None:
    listener, ledger = begun()
    first, second = (make_record(epoch=e, examples_seen=200 * n, time=BEGAN + n) for n, e in ((1, 1.0), (2, 2.0)))
    for record in (first, second, first, second):
        listener.evaluated(make_spec(), record)
    assert (ledger["epochs_total"], ledger["examples_total"], ledger["evaluations_total"]) == (2.0, 400, 2)
    for epoch, time in ((1.0, BEGAN - 60), (2.0, BEGAN + 60)):  # the first one in an earlier launch
        record = make_record(epoch=epoch, examples_seen=200 * int(epoch), time=time)
        listener.evaluated(make_spec(seed=1), record)
    assert (ledger["epochs_total"], ledger["examples_total"]) == (3.0, 600)


def test_cache_hits_are_frozen_layers_times_examples_that_were_not_run_and_misses_those_that_were() -> None:
    listener, ledger = begun()
    freeze = {"strategy": "first_k", "layers": (0, 1, 2), "embeddings": True}
    spec = make_spec(freeze=freeze, frozen_dropout=False)
    listener.evaluated(spec, make_record(prefix_layers=3, examples_seen=200))
    assert (ledger["prefix_cache_hits_total"], ledger["prefix_cache_misses_total"]) == (600, 0)
    other = make_spec(freeze=freeze, frozen_dropout=False, seed=1)
    listener.evaluated(other, make_record(prefix_layers=0, examples_seen=200))
    assert (ledger["prefix_cache_hits_total"], ledger["prefix_cache_misses_total"]) == (600, 600)


def test_a_folders_disk_is_told_and_another_stores_is_not(tmp_path: Path) -> None:
    assert begun(disk=tmp_path)[1]["store_disk_bytes"] >= begun(disk=tmp_path)[1]["store_free_bytes"] > 0
    assert not [name for name, _ in begun()[1].values if "bytes" in name]
    assert not [name for name, _ in begun(disk=tmp_path / "gone")[1].values if "bytes" in name]


def test_at_the_end_nothing_runs_and_before_it_begins_and_afterwards_nothing_is_told() -> None:
    listener, ledger = begun()
    for _ in range(2):
        listener.flushed(0.5)
        listener.started(make_spec(), 1)
        listener.over(DONE)
    assert (ledger["trials_running"], ledger["trials_queued"], ledger.observed) == (0, 0, [0.5])
    assert ledger.of("launches_ended_total", outcome="done") == 1
    early = MetricsListener(MeteredLaunch("tiny", 1, 0, "results", "inline", None))
    early.started(make_spec(), 1)
    early.evaluated(make_spec(), make_record())
    early.tick()
    early.over(DONE)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["start", "again", "end"])), max_size=40))
def test_running_queued_and_ended_are_always_all_that_were_planned(story: list[tuple[int, str]]) -> None:
    listener, ledger = begun(planned=5)
    states = dict.fromkeys(range(5), "queued")
    for seed, move in story:
        spec = make_spec(seed=seed)
        if move == "start" and states[seed] == "queued":
            listener.started(spec, 1)
            states[seed] = "running"
        elif move == "again" and states[seed] == "running":
            listener.retried(spec, State.LOST, None)
            states[seed] = "queued"
        elif move == "end" and states[seed] == "running":
            listener.ended(spec, State.FAILED, "no")
            states[seed] = "ended"
        counts = [list(states.values()).count(state) for state in ("running", "queued", "ended")]
        assert [ledger["trials_running"], ledger["trials_queued"], ledger["trials_total"]] == counts


def test_names_follow_prometheus_and_no_label_grows_with_the_trials() -> None:
    for metric in METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert set(metric.labels) <= {"state", "device", "store", "cluster", "version", "outcome"}, metric.name
        assert metric.help.endswith("."), metric.name
