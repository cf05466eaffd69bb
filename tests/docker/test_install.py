"""The one install script: what it refuses. tests/lab/deploy/test_image.py installs by it into an empty root."""

from __future__ import annotations

import os
import re
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
        (("--cu126", "--cuda"), "exclude each other"),
        (("--python", "no-such-python"), "there is no no-such-python"),
    ],
)
def test_a_wrong_option_is_told_and_nothing_is_made(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    told = install("--venv", str(tmp_path / "venv"), *options)
    assert told.returncode == 2
    assert said in told.stderr
    assert not (tmp_path / "venv").exists()


# An interpreter whose environments have the build of torch that the file `built` beside its log names.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"import torch"*) cat "$STAND_IN/built" 2>/dev/null ;;
  *libcuda*) [ -n "${DRIVER:-}" ] ;;
  "-m pip index versions "*--extra-index-url*) echo "Available versions: $LISTED, ${LISTED_THERE:-}" ;;
  "-m pip index versions "*) echo "Available versions: ${LISTED:-}" ;;
  "-m pip uninstall "*) echo "$*" >>"$STAND_IN/log"; rm "$STAND_IN/built" ;;
  "-m pip install "*--require-hashes*) echo "$*" >>"$STAND_IN/hashed"; [ -z "${OTHER_FILES:-}" ] ;;
  "-m pip install "*) echo "$*" >>"$STAND_IN/log"; [ -e "$STAND_IN/built" ] || echo "$OFFERED" >"$STAND_IN/built" ;;
esac
"""


def install_torch(folder: Path, *options: str, offered: str, **variables: str) -> tuple[int, str, list[str]]:
    """The exit code, what was said, and the calls of pip, but for those that insist on hashes."""
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    (folder / "log").write_text("")
    words = [
        "sh",
        str(SCRIPT),
        "--venv",
        str(folder / "venv"),
        "--python",
        str(folder / "python"),
        "--editable",
        *options,
    ]
    kept = {name: value for name, value in os.environ.items() if name != "PYTORCH_INDEX"}
    environment = kept | {"STAND_IN": str(folder), "OFFERED": offered} | variables
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stderr, (folder / "log").read_text().splitlines()


PINNED = re.findall("^torch==(.*)$", (CHECKOUT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)[0]


@each(
    "there, driver, listed, listed_there, asked",
    [
        ("", "", f"{PINNED}+cpu", "", ""),  # pip's settings have a CPU build, which sorts first
        ("", "", PINNED, f"{PINNED}+cpu", "--extra-index-url=https://download.pytorch.org/whl/cpu"),
        ("", "yes", f"{PINNED}+cpu, {PINNED}", "", f"torch==={PINNED}"),
        (f"{PINNED} cuda cu126", "", PINNED, f"{PINNED}+cpu", ""),
        (f"{PINNED} cpu", "yes", PINNED, "", ""),
        ("2.0.0 cpu", "yes", PINNED, f"{PINNED}+cpu", "--extra-index-url=https://download.pytorch.org/whl/cpu"),
        ("2.0.0 cuda cu126", "", f"{PINNED}+cpu, {PINNED}", "", f"torch==={PINNED}"),
    ],
)
def test_the_build_that_is_there_stays_and_where_none_is_the_driver_decides(
    tmp_path: Path, there: str, driver: str, listed: str, listed_there: str, asked: str
) -> None:
    if there:
        (tmp_path / "built").write_text(f"{there}\n")
    lists = {"LISTED": listed, "LISTED_THERE": listed_there, "DRIVER": driver}
    code, said, (call,) = install_torch(tmp_path, offered="cpu", **lists)
    assert (code, said) == (0, "")
    assert call.removeprefix("-m pip install --quiet --no-build-isolation ").split("--editable")[0].strip() == asked


def test_files_with_known_hashes_come_first_and_an_index_with_others_is_an_error_with_the_way_out(
    tmp_path: Path,
) -> None:
    _, _, (call,) = install_torch(tmp_path, "--core", offered="cpu", LISTED=f"{PINNED}+cpu")
    files = [line.rpartition("/")[2] for line in (tmp_path / "hashed").read_text().splitlines()]
    assert (files, "--no-build-isolation" in call) == (["build.txt", "core.txt"], True)
    code, said, calls = install_torch(tmp_path, offered="cpu", OTHER_FILES="yes")
    assert (code, "HASHES=no" in said, calls) == (1, True, [])
    code, _, (call,) = install_torch(tmp_path, offered="cpu", LISTED=f"{PINNED}+cpu", OTHER_FILES="yes", HASHES="no")
    assert (code, "--no-build-isolation" in call) == (0, False)


def test_where_there_is_a_driver_and_no_build_for_cuda_one_line_says_that_another_is_taken(tmp_path: Path) -> None:
    code, said, (call,) = install_torch(tmp_path, offered="cpu", LISTED=f"{PINNED}+cpu", DRIVER="yes")
    assert (code, "torch" in call) == (0, False)
    assert re.fullmatch(r"install: pip finds no build of torch \S+ for CUDA: [^\n]+\n", said)


def test_where_no_cpu_build_can_be_had_one_line_says_that_the_other_is_taken(tmp_path: Path) -> None:
    code, said, (call,) = install_torch(tmp_path, offered="cuda cu130", LISTED=PINNED, PYTORCH_INDEX="https://other")
    assert (code, "torch" in call, "extra-index" in call) == (0, False, False)
    assert re.fullmatch(r"install: no CPU build of torch \S+ at https://other: [^\n]+\n", said)


def test_a_build_for_an_older_cuda_comes_from_the_index_of_its_name_or_the_one_given(tmp_path: Path) -> None:
    code, _, (call,) = install_torch(tmp_path, "--cu126", offered="cuda cu126")
    assert (code, bool(re.search(r"--extra-index-url \S+/cu126 ", call)), "===" in call) == (0, True, False)
    (tmp_path / "built").unlink()
    _, _, (call,) = install_torch(tmp_path, "--cu126", offered="cuda cu126", PYTORCH_INDEX="file:///wheels")
    assert "--extra-index-url file:///wheels " in call


def test_another_build_that_is_there_is_replaced_and_the_same_is_kept(tmp_path: Path) -> None:
    (tmp_path / "built").write_text("cpu\n")
    code, said, calls = install_torch(tmp_path, "--cuda", offered="cuda cu130")
    assert (code, [call.split()[2] for call in calls]) == (0, ["uninstall", "install"])
    assert "replacing the build of torch that is there (cpu)" in said
    _, _, calls = install_torch(tmp_path, "--cuda", offered="cuda cu130")
    assert [call.split()[2] for call in calls] == ["install"]


def test_a_build_that_pip_did_not_find_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    code, said, _ = install_torch(tmp_path, "--cuda", offered="cpu")
    assert (code, "pip found cpu; " in said, "PYTORCH_INDEX" in said) == (1, True, True)


def test_make_names_a_build_of_torch_once_and_a_later_call_without_it_changes_nothing(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    script = tmp_path / "docker" / "install.sh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nmkdir -p .venv && echo "$*" >>calls\n')
    script.chmod(0o755)
    for words in (["TORCH=cuda"], [], ["TORCH=cuda"], ["TORCH=cpu"]):
        subprocess.run(["make", "-f", CHECKOUT / "Makefile", "setup", *words], cwd=tmp_path, check=True)
    subprocess.run(["touch", "-d", "+1 hour", tmp_path / "constraints.txt"], check=True)  # other pins: installed anew
    subprocess.run(["make", "-f", CHECKOUT / "Makefile", "setup"], cwd=tmp_path, check=True)
    named = [re.findall("--c[pu]+d?a?", call) for call in (tmp_path / "calls").read_text().splitlines()]
    assert named == [["--cuda"], [], ["--cpu"], [], ["--cpu"], []]
