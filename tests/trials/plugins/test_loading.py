"""Plug-ins are found by name, refused in words, and go along as files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.analysis.cells import cell_columns
from orchestrator.analysis.summary import summarise
from orchestrator.session.tables import cell_tables
from tests.builders import make_spec
from tests.examples import each
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.plugin_packages import install
from trials.errors import ConfigError
from trials.freeze.strategies import FREEZE_STRATEGIES, possible_depths
from trials.metrics.metric import metric_label
from trials.plugins import loading
from trials.plugins.loading import load, load_installed, loaded_plugins, source_digests
from trials.plugins.registry import Registry

pytestmark = pytest.mark.usefixtures("fresh_plugins")


@pytest.fixture
def searched() -> Iterator[None]:
    """Installed plug-ins are looked for anew, as in a new process."""
    load_installed.cache_clear()
    yield
    load_installed.cache_clear()


def test_the_plug_in_of_an_installed_package_is_found_by_its_entry_point(
    searched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "site"))
    assert load_installed() == ()
    assert possible_depths("ends", 6) == [0, 2, 4, 6]


def test_a_broken_installed_plug_in_is_told_and_stops_nothing(
    searched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "site", "x = 1\nraise RuntimeError('no licence')\n", "broken_ends"))
    (problem,) = load_installed()
    assert "plug-in 'broken_ends' of broken_ends 1.0: cannot be imported (RuntimeError: no licence)" in problem
    assert f"{tmp_path / 'site' / 'broken_ends' / '__init__.py'}:2" in problem


def test_a_module_beside_the_sweep_is_loaded(tmp_path: Path) -> None:
    package = install(tmp_path) / "freeze_ends"
    load(["freeze_ends"], [tmp_path])
    assert FREEZE_STRATEGIES["ends"](6, 2) == {0, 5}
    assert str(package / "order.py") in map(str, loaded_plugins().files().values())


@each(
    "name, text",
    [
        ("nowhere", "no module 'nowhere' beside the sweep file, in this folder, or installed"),
        ("trials", "Permafrost has a module of this name"),
        ("random", "Python has a module of this name"),
        ("twice", r"cannot be imported \(ValueError: freeze strategy 'first_k' is registered by Permafrost already"),
        ("needy", r"cannot be imported \(ModuleNotFoundError: No module named 'not_here'\), .*needy.py:1"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_place(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "from trials.freeze.strategies import FREEZE_STRATEGIES\nFREEZE_STRATEGIES.register('first_k')(max)\n"
    )
    (tmp_path / "needy.py").write_text("import not_here\n")
    with pytest.raises(ConfigError, match=f"sweep.yaml:3: plugins: {name}: {text}"):
        load([name], [tmp_path], "sweep.yaml:3: plugins")


def test_another_source_has_another_digest(tmp_path: Path) -> None:
    (tmp_path / "changing.py").write_text("x = 1\n")
    load(["changing"], [tmp_path])
    before = source_digests()
    assert before == source_digests()
    (tmp_path / "changing.py").write_text("x = 2\n")
    assert source_digests()["changing"] != before["changing"]


def test_a_file_elsewhere_stands_for_the_same_module(tmp_path: Path) -> None:
    load(["freeze_ends"], [install(tmp_path)])
    taken = loaded_plugins()
    text = taken.to_json()
    assert loading.LoadedPlugins.of_json(text) == taken
    taken.load()  # where it is loaded already, it stays
    assert sys.modules["freeze_ends"].__file__ == str(tmp_path / "freeze_ends" / "__init__.py")


def test_what_a_script_registers_cannot_be_sent_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    exec("register('outer')(max)", {"register": FREEZE_STRATEGIES.register, "__name__": "__main__"})
    with pytest.raises(ConfigError, match=r"registered in this script or notebook, .*`plugins: "):
        loaded_plugins()


# --- A trial of a plug-in that is not loaded is shown as such, under the identity that it has with it.


MIDDLE = {"strategy": "middle_k", "layers": (2, 3), "embeddings": True}


def test_a_task_and_a_metric_are_named_in_tables() -> None:
    specs = [make_spec(task="xpos"), make_spec(task="xpos", freeze=MIDDLE)]
    assert cell_columns(specs[0])["metric"] == "score of xpos (plug-in not loaded)"
    assert metric_label("error_rate") == "error rate (plug-in not loaded)"
    assert len(list(cell_tables(summarise(specs, [])))) == 3  # with two lines below


# --- A registry answers with the plug, or with the words it knows.


def numbers() -> Registry[int]:
    registry: Registry[int] = Registry("number")
    registry.register("two")(2)
    registry.register("one")(1)
    return registry


def test_an_unknown_word_is_answered_with_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^unknown 'on', did you mean 'one'\? Known: one, two\. One of a plug-in: "):
        numbers()["on"]


def test_a_word_of_another_module_is_taken() -> None:
    registry = numbers()
    with pytest.raises(ValueError, match=rf"number 'one' is registered by {__name__} already. Choose another name"):
        exec("registry.register('one')(3)", {"registry": registry, "__name__": "another"})
