"""Expected costs: between those that were timed, with intervals that hold what they promise; more is never cheaper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.forecast.forecast import Forecast, Hardware, forecast, scheduled_s
from orchestrator.forecast.history import Observation
from orchestrator.sweeps.cluster_spec import Prices
from tests.examples import examples
from tests.orchestrator.forecast.worlds import history_of, observed, seconds, spec_of
from trials.spec import TrialSpec

HERE = Hardware(slots=2, cpus=1, gpus=0.0, start_s=1.0, prices=Prices(cpu_hour=0.5))


def forecast_of(specs: list[TrialSpec], seen: list[Observation], where: Hardware = HERE) -> Forecast:
    return forecast("test", specs, history_of(seen), [], where)


def test_a_shape_between_two_that_were_timed_takes_a_time_between_theirs() -> None:
    seen = [observed(spec_of(depth), np.random.default_rng(0), noise=0.0) for depth in (0, 2, 6)]
    found = forecast_of([spec_of(4)], seen).cells[0]
    assert found.source == "from the cost model"
    assert found.seconds is not None
    took = seconds(observed(spec_of(4), np.random.default_rng(0), noise=0.0))
    assert found.seconds.median == pytest.approx(took, rel=0.02)


def test_intervals_hold_four_times_of_five_on_rows_with_known_noise() -> None:
    inside = []
    for run in range(40):
        rng = np.random.default_rng(run)
        speeds = np.exp(rng.normal(0, 0.1, 5))
        depths = (0, 2, 4, 6)
        seen = [
            observed(spec_of(depth, seed=seed), rng, noise=0.08, launch=f"l{k}", factor=speeds[k])
            for k in range(4) for depth in depths for seed in (0, 1)
        ]  # fmt: skip
        specs = [spec_of(depth, seed=9, train_size=300) for depth in depths]
        found = forecast_of(specs, seen)
        for spec, cell in zip(specs, found.cells, strict=True):
            assert cell.seconds is not None
            took = seconds(observed(spec, rng, noise=0.08, factor=speeds[4]))
            inside.append(cell.seconds.low <= took <= cell.seconds.high)
    assert 0.72 <= np.mean(inside) <= 0.97  # 40 independent launches: three sigma are 0.19


@settings(max_examples=examples(25))
@given(st.integers(0, 5), st.integers(2, 5), st.integers(20, 400), st.integers(0, 300), st.integers(0, 3))
def test_more_epochs_sentences_or_layers_are_never_forecast_cheaper(
    depth: int, epochs: int, size: int, more: int, later: int
) -> None:
    seen = [observed(spec_of(2), np.random.default_rng(0), noise=0.1)]
    small, large = (
        forecast_of([spec_of(d, train_size=n, optim={"epochs": e})], seen).cells[0].seconds
        for d, n, e in ((depth + 1, size, epochs), (depth, size + more, epochs + later))
    )
    assert small is not None
    assert large is not None
    if 2 in (depth, depth + 1):  # the shape that was seen has a correction of its own
        return
    assert large.median >= small.median * 0.999


def test_a_model_never_seen_gets_a_wider_interval() -> None:
    seen = [observed(spec_of(d, seed=s), np.random.default_rng(0), noise=0.03) for d in (0, 3) for s in (0, 1)]
    widths = []
    for revision in ("a" * 64, "b" * 64):
        model = spec_of(1).model.model_copy(update={"revision": revision})
        seconds = forecast_of([spec_of(1).model_copy(update={"model": model})], seen).cells[0].seconds
        assert seconds is not None
        widths.append(seconds.high / seconds.low)
    assert widths[1] > 1.2 * widths[0]


def test_money_is_the_price_of_all_trials_time() -> None:
    seen = [observed(spec_of(0), np.random.default_rng(0), noise=0.0)]
    found = forecast_of([spec_of(0, seed=s) for s in range(4)], seen)
    assert found.cost is not None
    assert found.device_hours is not None
    assert found.cost.median == pytest.approx(0.5 * found.device_hours.median)
    assert forecast_of([spec_of(0)], seen, Hardware(1, 1, 0.0, 1.0, Prices())).cost is None


def test_without_an_observation_nothing_is_guessed() -> None:
    found, seen = forecast_of([spec_of(0)], []), observed(spec_of(0), np.random.default_rng(0), noise=0)
    assert not found.is_known
    assert found.cells[0].seconds is None
    assert forecast_of([spec_of(0, precision="bf16")], [seen]).wall_s is None


def test_trials_go_to_the_slot_that_is_free_first() -> None:
    took = [4.0, 1.0, 1.0, 1.0, 3.0]
    assert [scheduled_s(took, slots) for slots in (2, 1, 9)] == [6.0, 10.0, 4.0]
    assert scheduled_s([], 2) == 0.0
