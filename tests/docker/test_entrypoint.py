"""The containers' main process: secrets by file, what starts a node, and whom a SIGTERM is handed to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import CHECKOUT, namespaces_allowed

ENTRYPOINT = CHECKOUT / "docker" / "entrypoint.py"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, str(ENTRYPOINT), *words], env=inherited | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_a_secret_in_a_file_reaches_the_command_and_its_file_is_no_longer_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k3y\n")
    told = run("sh", "-c", "echo $AWS_SECRET_ACCESS_KEY$AWS_SECRET_ACCESS_KEY_FILE",
               AWS_SECRET_ACCESS_KEY_FILE=str(tmp_path / "key"))  # fmt: skip
    assert (told.returncode, told.stdout) == (0, "k3y\n")


def test_a_secret_that_is_empty_or_absent_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    for name in ("key", "none"):
        told = run("echo", "started", AWS_SECRET_ACCESS_KEY_FILE=str(tmp_path / name))
        assert (told.returncode, told.stdout) == (2, "")
        assert str(tmp_path / name) in told.stderr


def test_a_worker_without_the_heads_address_and_kuberay_without_its_command_are_told_what_is_missing() -> None:
    assert "HEAD:PORT" in run("worker").stderr
    assert "overwrite-container-cmd" in run("kuberay", KUBERAY_GEN_RAY_START_CMD="").stderr
    assert run().returncode == 2


def test_a_node_that_ends_by_itself_gives_its_exit_code_and_one_that_is_asked_to_ends_well() -> None:
    assert run("kuberay", KUBERAY_GEN_RAY_START_CMD="sh -c 'exit 7'").returncode == 7
    words = [sys.executable, str(ENTRYPOINT), "kuberay"]
    environment = os.environ | {"KUBERAY_GEN_RAY_START_CMD": "sh -c 'trap \"exit 5\" TERM; echo up; sleep 60 & wait'"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait() == 0


def test_a_node_that_is_asked_to_end_asks_the_command_of_a_job_and_no_other_process_below_it(tmp_path: Path) -> None:
    told, node = "trap 'echo told >{}; exit' TERM; {}while :; do sleep 0.1; done", tmp_path / "node"
    (tmp_path / "job").write_text(told.format(tmp_path / "job-told", "echo up; "))
    (tmp_path / "other").write_text(told.format(tmp_path / "other-told", ""))
    # As Ray's: it ends when the job has.
    node.write_text(
        f"trap : TERM; sh {tmp_path}/other & other=$!; RAY_JOB_CONFIG_JSON_ENV_VAR={{}} sh {tmp_path}/job &\n"
        "while kill -0 $!; do wait $!; done; kill -9 $other\n"
    )
    words = [sys.executable, str(ENTRYPOINT), "kuberay"]
    environment = os.environ | {"KUBERAY_GEN_RAY_START_CMD": f"sh {node}"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait() == 0
    assert {path.name for path in tmp_path.glob("*-told")} == {"job-told"}


@pytest.mark.skipif(not namespaces_allowed(), reason="process 1 needs the rights for a namespace of its own")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("echo up; exec sleep 60", 128 + signal.SIGTERM),  # awaits no signal
        ("trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done", 3),
        ("(sleep 0.1 &); sleep 0.5; cat /proc/[0-9]*/stat | grep -q ' Z ' || echo up; sleep 60", 128 + signal.SIGTERM),
    ],
)
def test_as_process_1_it_hands_sigterm_to_its_command_and_takes_in_what_processes_leave(
    command: str, code: int
) -> None:
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, str(ENTRYPOINT)]
    with subprocess.Popen([*words, "sh", "-c", command], stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout
        try:
            assert outer.stdout.readline() == "up\n"
            first = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii")
            os.kill(int(first), signal.SIGTERM)
            assert outer.wait(timeout=30) == code
        finally:
            outer.kill()
