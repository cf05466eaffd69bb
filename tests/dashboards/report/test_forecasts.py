"""The report says how right a forecast was."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.report.forecasts import forecasts
from dashboards.report.write import write_report
from orchestrator.store import ResultStore
from tests.small_sweeps import POS, launched, write_bank


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """A first launch, which had nothing to be forecast from, and a second one, which had."""
    folder = tmp_path_factory.mktemp("sweeps")
    write_bank(folder / "bank", train=24, dev=8, test=8)
    launched(folder, POS, "first")
    return launched(folder, POS.replace("[0, 1]", "[2, 3]"), "second")


def test_a_first_sweep_has_no_forecast_to_judge(store: ResultStore) -> None:
    assert forecasts(store, "first") is None


def test_each_forecast_has_its_actual_value(store: ResultStore) -> None:
    found = forecasts(store, "second")
    assert found is not None
    assert found.lines[0].startswith("Forecast from 2 trials on this device: wall time ")
    assert found.table["quantity"].tolist()[:3] == ["wall time, s", "device-hours", "peak memory, bytes"]
    assert (found.table["low"] <= found.table["high"]).all()
    assert set(found.table["inside"]) <= {"yes", "no"}


def test_the_report_shows_them_in_html_markdown_and_csv(store: ResultStore, tmp_path: Path) -> None:
    written = write_report(Frames(store), PageQuery(sweep="second"), tmp_path, pictures=False)
    assert "Forecast and actual cost" in written.html.read_text(encoding="utf-8")
    assert "## Appendix: forecast and actual cost" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "tables" / "forecast.csv").read_text(encoding="utf-8").startswith("quantity,low,median")
