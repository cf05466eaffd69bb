"""Plug-ins travel as files, by digest: the driver's node keeps a copy, other nodes and jobs get it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ray_backend.jobs import package_plugins
from orchestrator.ray_backend.staging import StagedPlugins, piece, stage_plugins
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.plugin_packages import install
from trials.errors import ConfigError
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.plugins.loading import LoadedPlugins, load

pytestmark = pytest.mark.usefixtures("fresh_plugins")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package that is loaded in this process."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "driver"))
    load(["freeze_ends"], [install(tmp_path / "site")])
    return tmp_path / "site"


def on_another_node(staged: StagedPlugins, monkeypatch: pytest.MonkeyPatch, cache: Path) -> tuple[Path, list[str]]:
    """The folder of its cache, and what it asked the driver's node for."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(cache))
    asked = []

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        asked.append(str(arguments[0]))
        assert function is piece
        return function(*arguments)

    return staged.here(ask), asked


def test_another_node_gets_the_files_as_they_were_when_the_sweep_started(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage_plugins()
    (site / "freeze_ends" / "__init__.py").write_text("edited while the sweep runs")
    folder, asked = on_another_node(staged, monkeypatch, tmp_path / "other")
    assert all(str(tmp_path / "driver") in path for path in asked)
    assert on_another_node(staged, monkeypatch, tmp_path / "other") == (folder, [])
    del FREEZE_STRATEGIES._plugins["ends"]
    for name in ("freeze_ends", "freeze_ends.order"):
        monkeypatch.delitem(sys.modules, name)
    LoadedPlugins(staged.modules, dict.fromkeys(staged.names, str(folder))).load()
    assert FREEZE_STRATEGIES["ends"](6, 2) == {0, 5}


def test_files_that_came_wrong_are_refused(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = stage_plugins()
    Path(staged.files[0].path).write_bytes(b"x" * staged.files[0].n_bytes)
    with pytest.raises(ConnectionError, match="are not what was planned"):
        on_another_node(staged, monkeypatch, tmp_path / "other")


def test_a_job_takes_them_along_and_loads_them(site: Path, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    assert package_plugins(tmp_path / "job") == ["--plugin", "freeze_ends"]
    sent = sorted(str(path.relative_to(tmp_path / "job")) for path in (tmp_path / "job").rglob("*.*"))
    assert sent == ["freeze_ends/__init__.py", "freeze_ends/order.py"]


def test_a_file_of_the_same_name_is_not_overwritten(site: Path, tmp_path: Path) -> None:
    (tmp_path / "job" / "freeze_ends").mkdir(parents=True)
    (tmp_path / "job" / "freeze_ends" / "order.py").write_text("a corpus in Python")
    with pytest.raises(ConfigError, match=r"order\.py: a plug-in's file has the name of another"):
        package_plugins(tmp_path / "job")
