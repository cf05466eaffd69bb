"""A statistic of a plug-in is a column of the tables of settings, in the terminal and on pages."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from dashboards.views.scores import TABLE
from orchestrator.analysis.summary import STATISTICS, Statistic, summarise
from orchestrator.session.tables import cell_tables
from orchestrator.store import open_store
from tests.dashboards.stores import specs
from tests.dashboards.views.made import drawn, made
from tests.plugin_packages import fresh_plugins as fresh_plugins
from trials.errors import ConfigError

pytestmark = pytest.mark.usefixtures("fresh_plugins")


def worst(rows: pd.DataFrame) -> float:
    return 100 * float(rows["score"].min())


def test_it_is_computed_for_every_setting_and_shown_everywhere(tmp_path: Path) -> None:
    STATISTICS.register("worst")(Statistic("worst seed (%)", worst))
    table = drawn(TABLE, made(tmp_path / "s")).table
    assert table["worst seed (%)"].tolist() == pytest.approx(table["min (%)"].tolist(), abs=1e-4)
    console = Console(record=True, width=80)
    rows = open_store(str(tmp_path / "s")).trials().to_pylist()
    for part in cell_tables(summarise(specs(), rows)):
        console.print(part)
    assert f"{table['worst seed (%)'].iloc[0]:.2f}" in console.export_text().partition("worst seed (%)")[2]


def test_one_that_raises_says_which_and_for_what(tmp_path: Path) -> None:
    STATISTICS.register("wrong")(Statistic("wrong", lambda rows: rows["no_such_column"].min()))
    with pytest.raises(ConfigError, match=r"statistic wrong: KeyError: .*no_such_column.*, for the 3 trials of "):
        summarise(specs(), open_store(str(made(tmp_path / "s").snapshot.address)).trials().to_pylist())
