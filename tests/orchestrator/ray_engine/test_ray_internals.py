"""Each private name of Ray and Tune that we use is there, and does what we use it for."""

from __future__ import annotations

import ast
import importlib
import inspect
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution.tune_controller import TuneController

from orchestrator.ray_engine import ray_internals
from orchestrator.ray_engine.ray_internals import (
    PRIVATE_NAMES,
    OwnPathJob,
    PrivateName,
    killed_workers_are_lost,
)
from trials.plugins.import_origins import folders_for_other_processes

ROOT = Path(__file__).parents[3]
PRIVATE = ("._private", "._internal", "._raylet", "_tune_controller", "_global_node", "internal_kv")


def test_only_the_tested_releases_are_admitted() -> None:
    line = next(line for line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines() if '"ray[' in line)
    admitted = Requirement(line.split('"')[1]).specifier
    assert admitted.contains(version("ray"))
    assert not admitted.contains("2.61.0")


def test_no_other_module_names_one() -> None:
    for path in [*(ROOT / "orchestrator").rglob("*.py"), *(ROOT / "dashboards").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if path.name == "ray_internals.py" or not any(part.rpartition(".")[2] in text for part in PRIVATE):
            continue
        for node in ast.walk(ast.parse(text)):
            named = ast.unparse(node) if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute) else ""
            if "ray" in named or "tune" in named:
                assert not any(part in named for part in PRIVATE), f"{path}: {named}"


def test_a_driver_sends_its_workers_the_folder_of_our_packages_alone() -> None:
    job = OwnPathJob(_py_driver_sys_path=["/where/the/sweep/is/launched"])
    assert list(job._get_proto_job_config().py_driver_sys_path) == folders_for_other_processes()


def is_there(private: PrivateName) -> bool:
    """Whether the installed Ray has it, perhaps as an attribute that the `__init__` of its class sets."""
    owner, _, attribute = private.name.rpartition(".")
    module = importlib.import_module(private.module)
    holder = getattr(module, owner, None) if owner else module
    return hasattr(holder, attribute) or (
        inspect.isclass(holder) and f"self.{attribute}" in inspect.getsource(holder.__init__)
    )


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda private: private.name)
def test_the_installed_ray_has_each_private_name(private: PrivateName) -> None:
    gone = f"Ray {version('ray')} has no {private.module}.{private.name} (read in {private.read_in}), by which"
    assert is_there(private), f"{gone} {private.purpose}"


def test_a_name_that_is_gone_is_missed() -> None:
    for name in ("Node.never", "Never.all_processes", "never"):
        assert not is_there(PrivateName("ray._private.node", name, ""))


def test_the_table_lists_what_the_module_uses() -> None:
    code = ast.parse(Path(ray_internals.__file__).read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(code) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(code) if isinstance(node, ast.ImportFrom) for alias in node.names}
    listed = {private.name.rpartition(".")[2] for private in PRIVATE_NAMES}
    assert listed <= used | imported, "the table lists what is used no more"
    private = {name for name in used if name.startswith("_") and not name.startswith("__")}
    assert private <= listed, "the table lacks a name"


def test_names_that_are_called_take_what_they_are_given() -> None:
    assert [*inspect.signature(TuneController._execute_action).parameters][:3] == ["self", "trial", "decision"]


def test_tune_hears_of_a_killed_worker_as_of_a_dead_actor_and_only_inside() -> None:
    before, heard = RayActorManager._actor_task_failed, list[Exception]()
    actor = SimpleNamespace(actor_id=1, _on_error=lambda actor, error: heard.append(error))
    task = SimpleNamespace(_tracked_actor=actor, _on_error=None)
    manager = SimpleNamespace(_failed_actor_ids=set(), _cleanup_actor=lambda tracked_actor: None)
    with killed_workers_are_lost():
        for error in (OutOfMemoryError("18 workers were killed\nand more"), RayActorError(error_msg="it died")):
            RayActorManager._actor_task_failed(manager, tracked_actor_task=task, exception=error)
    assert [str(error) for error in heard] == ["OutOfMemoryError: 18 workers were killed", "it died"]
    assert RayActorManager._actor_task_failed is before
    with pytest.raises(RuntimeError, match="unexpected exception"):  # else the above would not be needed any more
        RayActorManager._actor_task_failed(manager, tracked_actor_task=task, exception=OutOfMemoryError("gone"))
