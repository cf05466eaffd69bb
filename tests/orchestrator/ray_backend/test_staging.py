"""Files and plug-ins come to nodes that lack them, once and whole; a store that nodes do not share is noticed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ray_backend import staging as staging
from orchestrator.ray_backend.shared_folder import elsewhere, holds, unshared_folder_note
from orchestrator.ray_backend.staged_plugins import StagedPlugins, stage_plugins
from orchestrator.ray_backend.staging import staged
from tests.builders import write_tagged_treebank
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.plugin_packages import install
from trials.draft import Lookup, TrialDraft
from trials.errors import DataError
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.plugins.loading import LoadedPlugins, load
from trials.spec import TrialSpec

pytestmark = pytest.mark.usefixtures("fresh_plugins")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package that is loaded in this process."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "driver"))
    load(["freeze_ends"], [install(tmp_path / "site")])
    return tmp_path / "site"


class Origin:
    """The driver's node, which counts what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.asked.append(function.__name__)
        return function(*arguments)


def on_another_node(staged: StagedPlugins, monkeypatch: pytest.MonkeyPatch, cache: Path) -> tuple[Path, Origin]:
    """The folder of its cache, and what it asked the driver's node for."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(cache))
    return staged.here(origin := Origin()), origin


def test_another_node_gets_the_files_as_they_were_when_the_sweep_started(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage_plugins()
    (site / "freeze_ends" / "__init__.py").write_text("edited while the sweep runs")
    folder, origin = on_another_node(staged, monkeypatch, tmp_path / "other")
    assert {*origin.asked} == {"piece"}
    assert all(file.path.startswith(str(tmp_path / "driver")) for file in staged.files)
    again, origin = on_another_node(staged, monkeypatch, tmp_path / "other")
    assert (again, origin.asked) == (folder, [])
    del FREEZE_STRATEGIES._plugins["ends"]
    for name in ("freeze_ends", "freeze_ends.order"):
        monkeypatch.delitem(sys.modules, name)
    LoadedPlugins(staged.modules, dict.fromkeys(staged.names, str(folder))).load()
    assert FREEZE_STRATEGIES["ends"](6, 2) == {0, 5}


# --- The files of a trial are brought to a node once, and are the planned ones.


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrialSpec:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "node"))
    bank = write_tagged_treebank(tmp_path / "driver" / "bank", train=12, dev=4, test=4)
    draft = TrialDraft.model_validate({"data": {"folder": str(bank)}, "optim": {"epochs": 1}, "lowercase": True})
    return draft.resolve(Lookup(offline=True))


def test_it_is_the_same_trial_with_files_of_this_node_which_are_asked_for_once(spec: TrialSpec, tmp_path: Path) -> None:
    here, again = staged(spec, Origin()), Origin()
    assert here.trial_id == spec.trial_id
    paths = [*here.data.train, *here.data.dev, *here.data.test, here.model.path]
    assert all(Path(path).is_relative_to(tmp_path / "node") for path in paths)
    assert (staged(spec, again), again.asked) == (here, [])


def test_of_many_workers_at_once_one_fetches(spec: TrialSpec) -> None:
    origin = Origin()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: staged(spec, origin), range(8)))
    assert len({one.model.path for one in found}) == 1
    assert (origin.asked.count("corpus_files"), origin.asked.count("model_files")) == (1, 1)


def test_large_files_come_in_pieces(spec: TrialSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE_BYTES", 1 << 20)
    origin = Origin()
    here = staged(spec, origin)
    weights = Path(spec.model.path) / "model.safetensors"
    assert (Path(here.model.path) / "model.safetensors").read_bytes() == weights.read_bytes()
    assert origin.asked.count("piece") > weights.stat().st_size >> 20


def test_what_came_wrong_is_refused_and_fetched_again_the_next_time(spec: TrialSpec) -> None:
    def broken(function: Callable[..., Any], *arguments: Any) -> Any:
        found = function(*arguments)
        return found[:-1] + b"x" if isinstance(found, bytes) else found

    with pytest.raises(ConnectionError, match="are not what was planned"):
        staged(spec, broken)
    assert staged(spec, Origin()).trial_id == spec.trial_id


def test_files_that_were_edited_on_the_drivers_node_are_refused_by_their_path(spec: TrialSpec, tmp_path: Path) -> None:
    train = Path(spec.data.train[0])
    train.write_text(train.read_text().replace("NOUN", "VERB"))
    with pytest.raises(DataError, match=r"files changed since the sweep was planned .*train\.conllu"):
        staged(spec, Origin())


def test_files_that_were_damaged_on_this_node_are_copied_anew(spec: TrialSpec) -> None:
    here = staged(spec, Origin())
    for path in (Path(here.model.path) / "tokenizer.json", Path(here.data.dev[0])):
        path.write_bytes(path.read_bytes()[:-9])
    origin = Origin()
    assert staged(spec, origin) == here
    assert {"model_files", "corpus_files"} <= set(origin.asked)


# --- Which nodes are asked whether they see the store's folder, and what is said of those that do not.


def node(name: str, host: str, address: str, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "NodeManagerHostname": host, "NodeManagerAddress": address, "Alive": alive}


def test_one_live_node_of_each_other_host_is_asked() -> None:
    nodes = [
        node("me", "head", "10.0.0.1"), node("beside", "head", "10.0.0.1"), node("gone", "a", "10.0.0.2", alive=False),
        node("b1", "b", "10.0.0.3"), node("b2", "b", "10.0.0.3"), node("c", "b", "10.0.0.4"),
    ]  # fmt: skip
    assert elsewhere(nodes, "me") == [("b1", "b (10.0.0.3)"), ("c", "b (10.0.0.4)")]


def test_the_note_says_who_what_follows_and_the_way_out() -> None:
    said = unshared_folder_note(Path("/results"), ["b (10.0.0.3)"], among=3)
    assert said.startswith("b (10.0.0.3) (of 3 other nodes) does not see /results: checkpoints of trials stay on ")
    begins = {(1, 1): "b0 does not", (2, 2): "b0 and 1 more do not", (3, 9): "b0 and 2 more (of 9 other nodes) do not"}
    for (blind, among), words in begins.items():
        assert unshared_folder_note(Path("/r"), [f"b{n}" for n in range(blind)], among=among).startswith(words)


def test_a_node_sees_a_file_only_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text("right")
    assert holds(str(tmp_path / "probe"), "right")
    assert not holds(str(tmp_path / "probe"), "another sweep's")
    assert not holds(str(tmp_path / "absent"), "right")
