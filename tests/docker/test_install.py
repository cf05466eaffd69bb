"""The one install script: what it refuses. tests/lab/deploy/test_image.py installs by it into an empty root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.examples import each

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "docker" / "install.sh"


def install(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(SCRIPT), *options], capture_output=True, text=True, check=False)


@each(
    "options, said",
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
