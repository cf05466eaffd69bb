"""The outcome of a launch, from its store."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.claims import running_drivers
from orchestrator.config.console import say, sibling_command, stderr, typed_command
from orchestrator.config.quantities import HOUR, counted, duration, points
from orchestrator.execution.events import Listener, last_line
from orchestrator.execution.stop_request import StopRequest, polling
from orchestrator.forecast.forecast import Forecast
from orchestrator.session.display import failure_table
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from orchestrator.store.stored_specs import planned_specs, stored_spec
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.cluster_spec import Prices
from orchestrator.sweeps.plan import Plan
from trials.errors import ConfigError
from trials.metrics.metric import metric_label
from trials.spec import TrialSpec
from trials.state import State
from trials.tasks.task import score_name

# Limits of one launch: hours, trials, cost. At a limit, running trials stop after their next evaluation.
#
# The same command resumes the sweep. It counts its limits from zero; earlier launches do not count.

POLL_S = 0.5


@dataclass(frozen=True)
class Bounds:
    """Limits of a launch; None for no limit.

    Attributes:
        hours: Wall time from the start of the launch.
        cost: Cost of the cores and GPUs of its trials, by the prices in the cluster file.
    """

    hours: float | None = None
    trials: int | None = None
    cost: float | None = None

    def check(self, prices: Prices) -> None:
        """Raises ConfigError: A limit is not positive, or a cost has no prices."""
        for name, value in self.given().items():
            if value <= 0:
                raise ConfigError(f"{name} {value:g}: must be above 0.")
        if self.cost is not None and not (prices.cpu_hour or prices.gpu_hour):
            raise ConfigError(
                f"--max-cost {self.cost:g}: needs prices. Give --cluster a file with "
                "`prices: {cpu_hour: ..., gpu_hour: ...}`."
            )

    def given(self) -> Mapping[str, float]:
        """The limits that are set, by option name."""
        limits = {"--max-hours": self.hours, "--max-trials": self.trials, "--max-cost": self.cost}
        return {name: value for name, value in limits.items() if value is not None}

    def clock(self, began: float) -> Callable[[], float] | None:
        """Seconds left of a launch that began then on the monotonic clock; None without a limit of hours."""
        hours = self.hours
        return None if hours is None else lambda: hours * HOUR - (time.monotonic() - began)

    def settle(self, stop: StopRequest, *, left: int) -> None:
        """At the end, with `left` trials not run: a limit only counts as the reason to stop if trials are left."""
        if not left:
            stop.bound = None
        elif not stop.asked and self.trials is not None:
            stop.bound = f"--max-trials {self.trials} reached"

    def options(self) -> list[str]:
        """The command-line options, for the launch on a cluster."""
        return [word for name, value in self.given().items() for word in (name, f"{value:g}")]


def limit_note(bounds: Bounds, forecast: Forecast, hourly: float) -> str | None:
    """A note if a limit is below the forecast for the longest trial. `hourly` is the price of one trial-hour."""
    longest = forecast.longest_trial_s
    if longest is None:
        return None
    if bounds.hours is not None and bounds.hours * HOUR < longest:
        return f"--max-hours {bounds.hours:g} is less than the forecast for the longest trial, {duration(longest)}."
    price = longest / HOUR * hourly
    if bounds.cost is not None and bounds.cost < price:
        return (
            f"--max-cost {bounds.cost:g} is less than the forecast cost of the longest trial, "
            f"{price:.2g} {forecast.currency}."
        )
    return None


class Meter(Listener):
    """A listener that adds up the cost of trials.

    Attributes:
        hourly: The price of one hour of one trial.
    """

    def __init__(self, hourly: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.hourly, self._clock = hourly, clock
        self._running: dict[str, float] = {}
        self._past_s = 0.0
        self._lock = threading.Lock()

    def spent(self) -> float:
        """The cost so far, of running and ended trials."""
        with self._lock:
            now = self._clock()
            return (self._past_s + sum(now - began for began in self._running.values())) / HOUR * self.hourly

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Start counting the trial."""
        with self._lock:
            self._running[spec.trial_id] = self._clock()

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Stop counting until the trial starts again."""
        self.ended(spec, state, error)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Stop counting the trial."""
        with self._lock:
            self._past_s += self._clock() - self._running.pop(spec.trial_id, self._clock())


@contextmanager
def on_bounds(
    bounds: Bounds, meter: Meter, stop: StopRequest, say: Callable[[str], None], *, began: float
) -> Iterator[None]:
    """Stop the sweep at a limit while the block runs; `began` is the start of the launch on the monotonic clock."""
    if bounds.hours is None and bounds.cost is None:
        yield
        return

    def is_reached() -> bool:
        stop.bound = stop.bound or _reached(bounds, meter, time.monotonic() - began)
        if stop.bound is not None:
            say(f"Stopping, {stop.bound}: running trials continue to their next evaluation.")
        return stop.bound is not None

    if is_reached():  # before anything runs
        yield
        return
    with polling(is_reached, POLL_S, "limits"):
        yield


def _reached(bounds: Bounds, meter: Meter, elapsed_s: float) -> str | None:
    if bounds.hours is not None and elapsed_s >= bounds.hours * HOUR:
        return f"--max-hours {bounds.hours:g} reached"
    if bounds.cost is not None and (spent := meter.spent()) >= bounds.cost:
        return f"--max-cost {bounds.cost:g} reached with {spent:.4g} spent"
    return None


# Follow a sweep through its store, wherever its driver runs and whoever started it.

_POLL_S = 2.0
_COLUMNS = ("trial_id", "attempt", "state", "best_score", "error")


def follow_store(store: ResultStore, plan: SweepPlan, write: Callable[[str], None]) -> None:
    """Write one line for each trial that has ended or ends, until no driver runs the sweep. Raises StoreError."""
    specs = {trial_id: stored_spec(spec, trial_id) for trial_id, spec in plan.trials}
    follower, ended = Follower(store.storage, "trials", _COLUMNS), dict[str, str]()
    while True:
        is_running = bool(running_drivers(store.storage, plan.name))
        for part in follower.poll().rows:
            for row in part.to_pylist():
                spec = specs.get(row["trial_id"])
                if spec is not None and ended.get(spec.trial_id) != (result := _result(row, spec)):
                    ended[spec.trial_id] = result
                    write(f"{len(ended)}/{len(specs)} {row['state']:<9} {spec.label}{result}")
        if not is_running:
            write(f"sweep {plan.name}: not running; {len(ended)} of {counted(len(specs), 'trial')} ended.")
            return
        time.sleep(_POLL_S)


def _result(row: dict[str, Any], spec: TrialSpec) -> str:
    metric = metric_label(score_name(spec.task, spec.score))
    score = "" if row["best_score"] is None else f"  {metric} {points(row['best_score'])}"
    error = "" if row["state"] == State.COMPLETED else f"  {last_line(str(row['error'] or ''))}"
    return score + error


@dataclass(frozen=True)
class Outcome:
    """The output of `--json`, in trials; `failed` counts those that ended neither completed nor pruned."""

    sweep: str
    store: str
    planned: int
    skipped: int
    completed: int
    pruned: int
    failed: int
    wall_s: float


def outcome_of(plan: Plan, results: ResultStore, wall_s: float, *, dry_run: bool) -> Outcome:
    """Count the rows in the store of the attempts of this launch."""
    states = Counter(row["state"] for row in ([] if dry_run else _ended(plan, results, ["state"])))
    completed, pruned = states.pop(State.COMPLETED, 0), states.pop(State.PRUNED, 0)
    return Outcome(
        sweep=plan.sweep.name,
        store=str(results.address),
        planned=plan.n_trials,
        skipped=plan.n_skipped,
        completed=completed,
        pruned=pruned,
        failed=states.total(),
        wall_s=round(wall_s, 3),
    )


def early_end(plan: Plan, outcome: Outcome, stop: StopRequest) -> str | None:
    """Why a launch stopped early and how much is left; None if it did not."""
    left = f"{counted(len(plan.ahead) - outcome.completed - outcome.pruned - outcome.failed, 'trial')} left"
    if stop.reason is not None:
        return f"stopped with {left}: {stop.reason}"
    why = stop.bound or ("interrupted" if stop.asked else None)
    return why and f"{why}, {left}; finished trials are in the store."


def say_end(plan: Plan, results: ResultStore, outcome: Outcome, stop: StopRequest) -> None:
    """Print which trials failed, why the launch stopped early if it did, and how to resume."""
    if outcome.failed:
        say(f"{counted(outcome.failed, 'trial')} failed; run the same command to retry:")
        stderr.print(failure_table(_failures(plan, results)))
    if early := early_end(plan, outcome, stop):
        say(early if stop.reason is not None else f"{early} Resume with:\n  {typed_command()}")
    say(f"results {outcome.store}; show them again with: {sibling_command('status', '--store', outcome.store)}")
    say(f"next    {sibling_command('dashboard', outcome.store)}")
    say(f"        {sibling_command('answer', '--store', outcome.store)}")


def earlier_note(results: ResultStore, plan: SweepPlan, ended: Collection[str]) -> str:
    """How many ended trials an earlier version of a sweep declared, which are not shown; empty if there are none."""
    n = sum(trial_id in ended for trial_id, _ in results.earlier_trials(plan).trials)
    shown = "is" if n == 1 else "are"
    return f"{counted(n, 'trial')} of an earlier version of `{plan.name}` {shown} not shown (status --all)" if n else ""


def trials_of(plan: Plan, results: ResultStore) -> list[TrialSpec]:
    """All trials of the sweep, including those that its search has suggested so far."""
    if not plan.sweep.search.is_adaptive:
        return list(plan.trials)
    stored = next((sweep for sweep in results.sweeps() if sweep.name == plan.sweep.name), None)
    return planned_specs(stored) if stored else []


def _ended(plan: Plan, results: ResultStore, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of the attempts of this launch."""
    ids = {spec.trial_id for spec in trials_of(plan, results)}
    rows = results.trials().select(["trial_id", "attempt", *columns]).to_pylist()
    return [row for row in rows if row["trial_id"] in ids and row["attempt"] >= plan.next_attempt(row["trial_id"])]


def _failures(plan: Plan, results: ResultStore) -> list[tuple[str, str, str]]:
    """(state, last line of the error, label) of each trial of this launch that failed."""
    labels = {spec.trial_id: spec.label for spec in trials_of(plan, results)}
    return [
        (row["state"], last_line(row["error"]), labels[row["trial_id"]])
        for row in _ended(plan, results, ["state", "error"])
        if row["state"] not in (State.COMPLETED, State.PRUNED)
    ]
