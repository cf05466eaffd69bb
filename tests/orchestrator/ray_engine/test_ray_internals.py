"""Each private name of Ray and Tune that we use is there, and does what we use it for."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import signal
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from ray._private import utils, worker
from ray._private.node import Node
from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.experimental import internal_kv
from ray.tune.execution import class_cache
from ray.tune.execution.tune_controller import TuneController

from orchestrator.ray_engine import ray_internals
from orchestrator.ray_engine.ray_internals import (
    PRIVATE_NAMES,
    OwnPathJob,
    PrivateName,
    killed_workers_are_lost,
    sigterm_stays_ours,
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
    job = OwnPathJob()
    job._py_driver_sys_path = ["/where/the/sweep/is/launched"]
    assert list(job._get_proto_job_config().py_driver_sys_path) == folders_for_other_processes()


def test_lines_of_its_processes_are_printed_by_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*inspect.signature(worker.print_to_stdstream).parameters} >= {"data", "ignore_prefix"}
    monkeypatch.setattr(worker, "print_to_stdstream", None)
    ray_internals.keep_lines_off_stdout()
    assert worker.print_to_stdstream({"lines": ["a"]}, ignore_prefix=False) is None


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
    for name in ("Node.never", "Never.start_monitor", "never"):
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
    assert ray_internals.own_processes() == ({}, "")
    for function in ("put", "get", "del", "list"):
        assert "namespace" in inspect.signature(getattr(internal_kv, f"_internal_kv_{function}")).parameters
    assert [*inspect.signature(TuneController._execute_action).parameters][:3] == ["self", "trial", "decision"]
    assert isinstance(class_cache.DEFAULT_ENV_VARS, dict | set)
    assert isinstance(class_cache.ENV_VARS_TO_PROPAGATE, dict | set)


def test_a_driver_that_has_left_is_told_before_its_processes_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, node = list[str](), SimpleNamespace(kill_all_processes=lambda **options: calls.append("ended"))
    monkeypatch.setattr(worker, "_global_node", node)
    ray_internals.once_disconnected(lambda: calls.append("left"))
    node.kill_all_processes(check_alive=False)
    assert calls == ["left", "ended"]
    source = inspect.getsource(worker.shutdown)
    assert source.index("core_worker.shutdown_driver()") < source.index("_global_node.kill_all_processes(")


def test_a_node_is_started_by_three_functions_which_are_there_again_afterwards() -> None:
    before = Node.start_api_server, Node.start_ray_processes, Node.start_monitor
    assert "raise_on_failure" in inspect.signature(Node.start_api_server).parameters
    with ray_internals.starting_at_once(30.0) as wait:
        assert Node.start_ray_processes is not before[1]
        assert logging.getLogger("ray._private.services").filters
        assert wait() == ""
    assert (Node.start_api_server, Node.start_ray_processes, Node.start_monitor) == before


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


def test_ray_takes_sigterm_but_while_a_launch_of_ours_connects() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with sigterm_stays_ours():
        utils.set_sigterm_handler(signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is before
    assert "utils.set_sigterm_handler(" in inspect.getsource(worker.init)  # else the block would not be needed any more
    assert "utils.set_sigterm_handler(" in inspect.getsource(Node)
