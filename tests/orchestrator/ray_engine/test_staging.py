"""Files and plug-ins of a launch come to nodes that lack them, in the working folder of its workers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from orchestrator.execution.failures import failure
from orchestrator.ray_engine import staging
from orchestrator.ray_engine.staging import enter_again, load_staged, stage, with_local_files
from tests.builders import write_tagged_treebank
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.plugin_packages import install
from trials.corpora.corpus import planned_stamps
from trials.draft import Lookup, TrialDraft
from trials.errors import DataError, ModelError
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.plugins.loading import load
from trials.record import State
from trials.spec import TrialSpec

pytestmark = pytest.mark.usefixtures("fresh_plugins")


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    """A trial as planned on the driver's node."""
    bank = write_tagged_treebank(tmp_path / "bank", train=20, dev=5, test=5)
    return TrialDraft.model_validate({"data": {"folder": str(bank)}}).resolve(Lookup(offline=True))


def arrived(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of this process is what Ray makes of a staged one on another node."""
    there = folder.with_name("node")
    shutil.copytree(folder, there)
    monkeypatch.chdir(there)
    return there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "staged").mkdir()
    return folder


def test_it_is_the_same_trial_with_files_of_this_node(
    spec: TrialSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(folder, [spec, spec], print)
    node = arrived(folder, monkeypatch)
    here = with_local_files(spec)
    assert here.trial_id == spec.trial_id
    paths = [*here.data.train, *here.data.dev, *here.data.test, here.model.path]
    assert all(Path(path).is_relative_to(node) for path in paths)
    assert planned_stamps(here.data)


def test_files_that_were_edited_on_the_drivers_node_are_refused_by_their_path(spec: TrialSpec, folder: Path) -> None:
    train = Path(spec.data.train[0])
    train.write_text(train.read_text().replace("NOUN", "VERB"))
    with pytest.raises(DataError, match=r"files changed since the sweep was planned .*train\.conllu"):
        stage(folder, [spec], print)


def test_a_model_that_is_too_large_is_named_and_read_where_it_lies_or_from_the_hub(
    spec: TrialSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MOST_BYTES", 1 << 20)
    said = list[str]()
    stage(folder, [spec], said.append)
    assert [line.startswith(f"note    {spec.model.path}: ") for line in said] == [True]
    arrived(folder, monkeypatch)
    here = with_local_files(spec)
    assert (here.model, here.data.train == spec.data.train) == (spec.model, False)
    gone = spec.model.model_copy(update={"path": "/absent", "source": "hub:a/b@main"})
    monkeypatch.setattr(staging, "find_model", lambda draft: spec.model if draft.hub == "a/b" else None)
    assert with_local_files(spec.model_copy(update={"model": gone})).model.path == spec.model.path
    alone = gone.model_copy(update={"source": None})
    with pytest.raises(ModelError, match=r"/absent: is not on this node\. Put the model into a folder that all nodes"):
        with_local_files(spec.model_copy(update={"model": alone}))


def test_a_plug_in_is_loaded_as_it_was_when_the_sweep_started(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(["freeze_ends"], [install(tmp_path / "site")])
    plugins = stage(folder, [], print)
    arrived(folder, monkeypatch)
    (tmp_path / "site" / "freeze_ends" / "__init__.py").write_text("edited while the sweep runs")
    del FREEZE_STRATEGIES._plugins["ends"]
    for name in ("freeze_ends", "freeze_ends.order"):
        monkeypatch.delitem(sys.modules, name)
    load_staged(plugins)
    assert FREEZE_STRATEGIES["ends"](6, 2) == {0, 5}


def test_a_worker_finds_its_files_again_in_a_folder_that_ray_has_written_anew(
    spec: TrialSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(folder, [spec], print)
    node = arrived(folder, monkeypatch)
    shutil.rmtree(node)
    monkeypatch.setattr(staging, "WRITTEN_S", 0.0)
    with pytest.raises(OSError, match="has not written the working folder anew") as caught:
        enter_again()
    assert failure(caught.value)[0] is State.UNAVAILABLE
    shutil.copytree(folder, node)
    enter_again()
    assert Path(with_local_files(spec).data.train[0]).is_relative_to(node)
