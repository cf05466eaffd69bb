"""The error of a plug-in's statistic names it and its trials; tests/test_newcomer.py shows one on every surface."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.summary import STATISTICS, Statistic, summarise
from orchestrator.store import open_store
from tests.dashboards.stores import specs
from tests.dashboards.views.made import made
from tests.plugin_packages import fresh_plugins as fresh_plugins
from trials.errors import ConfigError

pytestmark = pytest.mark.usefixtures("fresh_plugins")


def test_one_that_raises_says_which_and_for_what(tmp_path: Path) -> None:
    STATISTICS.register("wrong")(Statistic("wrong", lambda rows: rows["no_such_column"].min()))
    with pytest.raises(ConfigError, match=r"statistic wrong: KeyError: .*no_such_column.*, for the 3 trials of "):
        summarise(specs(), open_store(str(made(tmp_path / "s").snapshot.address)).trials().to_pylist())
