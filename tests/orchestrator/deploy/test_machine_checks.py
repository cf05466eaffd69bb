"""The doctor in a sound and in a broken world: each problem is told with its fix, and nothing hangs or raises."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from orchestrator.commands.operate import doctor
from orchestrator.deploy.machine_checks import (
    CheckResult,
    browser,
    checks,
    devices,
    disk,
    examined,
    packages,
    python,
    ray,
    reachable,
    sweep_inputs,
    writable_store,
)
from orchestrator.sweeps.cluster_spec import ClusterSpec
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from trials.hardware.machine import CudaGpus, Gpu

Raises = Callable[[], Iterator[CheckResult]]


def levels(found: Iterator[CheckResult]) -> list[str]:
    return [one.level for one in found]


def test_this_machine_has_what_a_sweep_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_treebank(tmp_path / "tiny")
    sweep = write_sweep(tmp_path / "s.yaml", f"trial: {{data: {{folder: {folder}}}}}")
    with pytest.raises(typer.Exit) as ended:
        doctor(sweep, store=str(tmp_path / "results"), as_json=True)
    found = json.loads(capsys.readouterr().out)["findings"]
    assert ended.value.exit_code == 0, found
    assert {one["check"] for one in found} >= {"python", "packages", "devices", "store", "cache", "ray", "sweep"}


def test_a_failure_is_exit_code_1_and_stands_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old: Raises = functools.partial(python, (3, 10, 2))
    monkeypatch.setattr("orchestrator.commands.operate.checks", lambda *words: {"python": old})
    with pytest.raises(typer.Exit) as ended:
        doctor()
    shown = capsys.readouterr().out
    assert ended.value.exit_code == 1
    assert "fail" in shown
    assert "->" in shown


def test_an_old_python_and_absent_or_untested_packages_are_told() -> None:
    assert levels(python((3, 10, 2))) == ["fail"]
    assert levels(python((3, 13, 0))) == ["ok"]
    absent, old = packages(["no-such-package-at-all>=1", "numpy<1", 'ignored; extra == "dev"'])
    assert (absent.level, absent.fix) == ("fail", 'pip install "no-such-package-at-all>=1"')
    assert (old.level, old.fix) == ("warn", 'pip install "numpy<1"')


OLD = "The driver is too old (found version 12040)."


@each(
    "gpus, visible, said, fix",
    [
        (CudaGpus(torch="2.13.0+cpu"), None, "torch 2.13.0+cpu was built without CUDA", "make setup TORCH=cuda"),
        (CudaGpus(torch="2.13.0", cuda="13.0", said=(OLD,)), None,
         f"torch 2.13.0 for CUDA 13.0 says of the GPUs: {OLD}", "make setup TORCH=cu126"),
        (CudaGpus(torch="2.13.0", cuda="13.0"), None, "torch 2.13.0 sees none", "nvidia-smi"),
        (CudaGpus(torch="2.13.0", cuda="13.0"), "7", "sees none: CUDA_VISIBLE_DEVICES='7'",
         "Unset CUDA_VISIBLE_DEVICES"),
    ],
)  # fmt: skip
def test_why_torch_sees_no_gpu_is_told_with_its_own_warning_and_what_to_run(
    monkeypatch: pytest.MonkeyPatch, gpus: CudaGpus, visible: str | None, said: str, fix: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    _, found = devices(lambda: gpus, may_have=lambda: True)
    assert (found.level, said in found.what, fix in found.fix) == ("warn", True, True), found


def test_a_card_that_torch_warns_of_is_listed_with_the_warning_and_one_on_which_it_fails_is_a_failure() -> None:
    card, warning = Gpu("Tesla V100", 16 * 10**9), "Tesla V100 with CUDA capability sm_70 is not compatible."
    _, good, told = devices(lambda: CudaGpus((card,), torch="2.13.0", cuda="13.0", said=(warning,)))
    assert (good.level, warning in told.what, "TORCH=cu126" in told.fix) == ("ok", True, True)
    assert levels(devices(lambda: CudaGpus((card,), torch="2.13.0", cuda="13.0"))) == ["ok", "ok"]
    _, failed = devices(lambda: CudaGpus(why_none="torch cannot compute on V100: no kernel image"))
    assert (failed.level, "TORCH=cu126" in failed.fix) == ("fail", True)


def test_a_full_card_wants_its_memory_freed_and_no_other_driver() -> None:
    full = "T4 (number 0): CUDA error: out of memory"
    _, note, *_ = devices(lambda: CudaGpus(notes=(f"{full}; it is not used",)), may_have=lambda: False)
    _, failed = devices(lambda: CudaGpus(why_none=f"torch cannot compute on {full}"), may_have=lambda: False)
    for found in (note, failed):
        assert ("nvidia-smi lists who holds it" in found.fix, "driver" in found.fix) == (True, False)


def test_a_full_disk_warns_and_what_is_no_folder_or_no_store_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert levels(disk("cache", tmp_path / "new" / "deep", "fix", low=1.0)) == ["ok"]
    assert levels(disk("cache", tmp_path, "fix", low=1e18)) == ["warn"]
    assert levels(disk("cache", tmp_path / "file" / "inside", "fix")) == ["fail"]
    (found,) = writable_store(str(tmp_path))
    assert (found.level, bool(found.fix)) == ("fail", True)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Ray's own token file in a home, as it should be."""
    file = tmp_path / ".ray" / "auth_token"
    file.parent.mkdir()
    file.touch(mode=0o600)
    file.write_text("secret")
    return file


def test_rays_token_is_found_and_never_shown_and_fails_for_clusters_where_other_users_can_read_it(
    token: Path, tmp_path: Path
) -> None:
    worlds = [{"HOME": str(tmp_path)}, {"RAY_AUTH_TOKEN": "secret"}, {"RAY_AUTH_TOKEN_PATH": str(token)}]
    found = [one for world in worlds for one in ray(world, "auto")]
    assert [one.level for one in found] == ["ok"] * 3
    assert not any("secret" in one.what for one in found)
    token.chmod(0o644)
    home = {"HOME": str(tmp_path), "RAY_TMPDIR": "/tmp"}
    (told,) = ray(home, "auto")
    assert (told.level, f"chmod 600 {token}" in told.what) == ("fail", True)
    assert levels(ray(home, "local")) == ["ok", "ok", "warn"]


@each(
    "world, expected",
    [
        ({"RAY_AUTH_TOKEN_PATH": "/absent"}, "fail"),
        ({"RAY_AUTH_MODE": "disabled"}, "warn"),
        ({"RAY_AUTH_MODE": "enabled"}, "fail"),
        ({"HOME": "/absent"}, "warn"),
    ],
)
def test_a_ray_without_a_token_is_named(world: dict[str, str], expected: str) -> None:
    assert levels(ray(world, "auto")) == [expected]


def test_a_long_folder_for_rays_sockets_and_a_cluster_that_nobody_answers_for_fail() -> None:
    assert levels(ray({"RAY_TMPDIR": "/tmp/" + "x" * 60}, "local")) == ["fail"]
    assert levels(reachable("cluster", "http://127.0.0.1:1", "fix")) == ["fail"]
    assert {"cluster", "sweep"} <= set(checks("results", Path("s.yaml"), [], ClusterSpec(address="http://head:8265")))


def test_data_that_are_not_here_warn_where_they_can_be_fetched_and_fail_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    sweep = write_sweep(tmp_path / "s.yaml", 'trial: {data: {ud: UD_English-EWT, release: "2.16"}}')
    (found,) = sweep_inputs(sweep, [], treebanks="http://127.0.0.1:1")
    assert (found.level, "cannot be reached" in found.what) == ("fail", True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        (found,) = sweep_inputs(sweep, [], treebanks=f"http://127.0.0.1:{server.getsockname()[1]}")
    assert (found.level, found.fix.split(",")[0]) == ("warn", f"permafrost data fetch --sweep {sweep}")


def test_a_browser_that_cannot_be_run_or_is_not_there_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert levels(browser({"PERMAFROST_CHROMIUM": str(tmp_path / "absent")})) == ["warn"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert levels(browser({})) == ["warn"]
    (tmp_path / "chromium").touch(mode=0o755)
    assert levels(browser({})) == ["ok"]


def test_a_check_that_hangs_or_raises_is_a_finding_and_the_others_are_made() -> None:
    over = threading.Event()

    def hangs() -> Iterator[CheckResult]:
        over.wait()
        yield CheckResult("hangs", "ok", "late")

    def raises() -> Iterator[CheckResult]:
        raise RuntimeError("odd")
        yield

    found = [*examined({"hangs": hangs}, limit_s=0.2), *examined({"raises": raises, "python": python}, limit_s=300)]
    over.set()
    assert [(one.check, one.level) for one in found] == [("hangs", "fail"), ("raises", "fail"), ("python", "ok")]
    assert "odd" in found[1].what
