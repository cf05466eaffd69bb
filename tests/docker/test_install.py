"""The one install script: what it refuses, and an installation into an empty root, as the images' build does it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployments import DEPLOYMENT
from tests.pip_settings import local_folders, pip_settings

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "docker" / "install.sh"
RELEASE, MIRROR = "bookworm", "http://deb.debian.org/debian"  # what the images are based on
NOBODY = "10001:10001"


def install(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(SCRIPT), *options], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gpu",), "unknown option --gpu"),
        (("--venv",), "--venv needs a value"),
        (("--cpu", "--cuda"), "exclude each other"),
        (("--python", "no-such-python"), "there is no no-such-python"),
    ],
)
def test_a_wrong_option_is_told_and_nothing_is_made(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    told = install("--venv", str(tmp_path / "venv"), *options)
    assert told.returncode == 2
    assert said in told.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_too_old_is_named_with_the_way_out(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    told = install("--python", str(old), "--venv", str(tmp_path / "venv"))
    assert (told.returncode, "--python" in told.stderr) == (2, True)


def test_make_setup_calls_the_same_script() -> None:
    assert "docker/install.sh --dev" in (CHECKOUT / "Makefile").read_text(encoding="utf-8")


@contextlib.contextmanager
def mounted(root: Path, folders: Iterator[Path]) -> Iterator[None]:
    """The folders, where they are, in another root as well; read-only."""
    with contextlib.ExitStack() as undo:
        for folder in folders:
            place = root / folder.relative_to("/")
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", "-o", "ro", str(folder), str(place)], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
        yield


def copy_sources(to: Path) -> None:
    """What the Dockerfile copies."""
    to.mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, to)
    for name in ("configs", "trials", "orchestrator", "dashboards"):
        shutil.copytree(CHECKOUT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    (to / "docker").mkdir()
    shutil.copy(SCRIPT, to / "docker")


@pytest.mark.slow
@DEPLOYMENT
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.geteuid() != 0, reason="a root of its own needs the rights of root")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="apt-get install debootstrap")
def test_in_an_empty_root_the_script_installs_a_program_that_plans_a_sweep_for_a_user_without_rights(
    tmp_path: Path,
) -> None:
    root, settings = tmp_path / "root", pip_settings()
    words = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", RELEASE]
    subprocess.run([*words, str(root), MIRROR], check=True, stdout=subprocess.DEVNULL)
    copy_sources(root / "src")
    for name in (settings["PIP_CERT"], "/etc/resolv.conf"):
        shutil.copy(name, root / name.lstrip("/"))
    plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    with mounted(root, local_folders(settings)):
        script = ["chroot", str(root), "/src/docker/install.sh", "--venv", "/opt/permafrost/venv"]
        subprocess.run(script, env=plain | settings, check=True)
    planned = subprocess.run(
        ["chroot", f"--userspec={NOBODY}", str(root), "/opt/permafrost/venv/bin/permafrost", "launch", "--dry-run",
         "--offline", "--store", "/tmp/results"],
        env=plain | {"HOME": "/tmp"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert "to run" in planned.stderr
    assert not list((root / "src").rglob("*.pyc"))
