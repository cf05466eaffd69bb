"""The main process of a container.

    entrypoint.py head [OPTION OF ray start ...]
    entrypoint.py worker HEAD:PORT [OPTION OF ray start ...]
    entrypoint.py kuberay                  what KubeRay put into KUBERAY_GEN_RAY_START_CMD
    entrypoint.py healthy [URL]            exit code 0 if it is well; the node's raylet if no URL is given
    entrypoint.py COMMAND [WORD ...]       anything else: becomes that command; as process 1 it starts it and hands on
                                           signals, because the kernel keeps those from a process 1 that awaits none

Secrets come as files: where `AWS_SECRET_ACCESS_KEY_FILE` names one, its text becomes `AWS_SECRET_ACCESS_KEY`. Ray reads
its token by itself, from the file that RAY_AUTH_TOKEN_PATH names.

`ray start --block` takes a SIGTERM well by itself (ray/_private/node.py, `_drain_node_before_shutdown`): the node is
given no more work, and ends as soon as it is idle or after RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S. But it does not tell
the trials and the drivers of submitted sweeps, which would run on and then be killed. So they are asked here to go:
trials do at their next step, kept, drivers when all of their trials have come to an evaluation.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, MutableMapping
from pathlib import Path

GRACE = "PERMAFROST_GRACE_S"  # seconds that trials have to be kept in; the container's own grace must be longer
DEFAULT_GRACE_S = 60.0
DRAIN = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
DRAINED_AFTER_S = 1.5  # a node that is asked to end takes no more work after about so long
RAYLET = "http://127.0.0.1:52365/api/local_raylet_healthz"
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "PERMAFROST_DASHBOARD_TOKEN")
NO_TRIALS = ("IDLE", "DashboardAgent", "RuntimeEnvAgent", "SPILL", "RESTORE")  # Ray's own, by their titles
OF_A_JOB = b"RAY_JOB_CONFIG_JSON_ENV_VAR="  # what a submitted command has in its environment, and nothing else of Ray's
# Without these Ray takes any free ports, which no policy of a network could name.
PORTS = (
    "--node-manager-port=6380", "--object-manager-port=6381", "--dashboard-agent-grpc-port=6382",
    "--runtime-env-agent-port=6383", "--dashboard-agent-listen-port=52365", "--metrics-export-port=8080",
    "--min-worker-port=10100", "--max-worker-port=10999",
)  # fmt: skip
HEAD = ("--head", "--port=6379", "--ray-client-server-port=10001", "--dashboard-host=0.0.0.0", "--dashboard-port=8265")


def main(words: list[str]) -> int:
    """Do what the words say; the exit code."""
    if not words:
        sys.stderr.write("entrypoint: head, worker HEAD:PORT, kuberay, healthy [URL], or a command.\n")
        return 2
    role, *rest = words
    if role == "healthy":
        return 0 if answers(rest[0] if rest else RAYLET) else 1
    try:
        read_secrets(os.environ)
        command = ray_command(role, rest)
        grace_s = float(os.environ.get(GRACE, DEFAULT_GRACE_S))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"entrypoint: {error}\n")
        return 2
    if command is None:
        if os.getpid() == 1:
            return run_command(words)
        os.execvp(role, words)  # noqa: S606  # becomes it: signals go straight there
    os.environ.setdefault(DRAIN, str(grace_s))
    return run_node(command, grace_s)


def read_secrets(environment: MutableMapping[str, str]) -> None:
    """Put the text of every `<SECRET>_FILE` into `<SECRET>`.

    Raises:
        OSError: a file cannot be read.
        ValueError: one is empty.
    """
    for name in SECRETS:
        if path := environment.pop(f"{name}_FILE", ""):
            environment[name] = Path(path).read_text(encoding="utf-8").strip()
            if not environment[name]:
                raise ValueError(f"{name}_FILE: {path} is empty.")


def ray_command(role: str, words: list[str]) -> list[str] | None:
    """What starts a node in the foreground; None where the role is a command of its own.

    Raises:
        ValueError: something that the role needs is not there.
        OSError: the head's name is not known.
    """
    if role == "head":
        given = any(word.startswith("--node-ip-address") for word in words)
        own = [] if given else [f"--node-ip-address={socket.gethostbyname(socket.gethostname())}"]
        return ["ray", "start", "--block", *HEAD, *PORTS, *own, *words]
    if role == "worker":
        if not words:
            raise ValueError("worker needs the head's address, HEAD:PORT.")
        own = [f"--node-ip-address={address_towards(words[0])}"]
        return ["ray", "start", "--block", f"--address={words[0]}", *PORTS, *own, *words[1:]]
    if role == "kuberay":
        generated = os.environ.get("KUBERAY_GEN_RAY_START_CMD", "")
        if not generated:
            raise ValueError(
                'KUBERAY_GEN_RAY_START_CMD is empty: annotate with ray.io/overwrite-container-cmd: "true".'
            )
        return shlex.split(generated)
    return None


def address_towards(head: str) -> str:
    """The own address in the network that leads to `host:port`; nothing is sent."""
    host, _, port = head.rpartition(":")
    family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as one:
        one.connect(place)
        return str(one.getsockname()[0])


def answers(url: str) -> bool:
    """Whether a GET is answered by a service in order; one that asks for a token (401) is."""
    try:
        with urllib.request.urlopen(url, timeout=3):  # noqa: S310  # a URL of the container's own setup
            return True
    except urllib.error.HTTPError as error:
        with error:
            return error.code < 500
    except (OSError, ValueError):
        return False


def run_node(command: list[str], grace_s: float) -> int:
    """Run a node until it ends or SIGTERM asks; then its trials are kept first, and its drivers stop their sweeps.

    As process 1 it also takes in what other processes leave behind.

    Returns:
        0 after a SIGTERM that everything obeyed in time, 1 after one that had to be enforced, else the node's own.
    """
    awaited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    node = os.posix_spawnp(command[0], command, os.environ, setsigmask=())
    asked_at, told = None, set[int]()
    while (status := reap(node)) is None:
        received = signal.sigtimedwait(awaited, 0.5)
        now = time.monotonic()
        if asked_at is None and received is not None and received.si_signo != signal.SIGCHLD:
            asked_at = now
            os.kill(node, signal.SIGTERM)
        if asked_at is None:
            continue
        if now > asked_at + DRAINED_AFTER_S:
            told |= ask_to_go(node, told)
        if now > asked_at + grace_s + 10:
            os.kill(node, signal.SIGKILL)
            return 1
    return status if asked_at is None else 0


def run_command(words: list[str]) -> int:
    """Run a command until it ends; as process 1 hand on the signals that ask to end, and take in ended processes.

    Returns:
        The command's exit code, or 128 and the number of the signal that ended it; 127 if the command does not exist.
    """
    awaited = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        command = os.posix_spawnp(words[0], words, os.environ, setsigmask=())
    except OSError as error:
        sys.stderr.write(f"entrypoint: {words[0]}: {error.strerror}\n")
        return 127
    while (status := reap(command)) is None:
        received = signal.sigwait(awaited)
        if received != signal.SIGCHLD:
            os.kill(command, received)
    return status if status >= 0 else 128 - status


def reap(node: int) -> int | None:
    """Take in every process that has ended; the node's exit code if it is among them."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == node:
                return os.waitstatus_to_exitcode(ended[1])
    return None


def ask_to_go(node: int, told: set[int]) -> set[int]:
    """SIGTERM to the node's trials and drivers that were not told yet; their process ids."""
    found = {pid for pid in working_below(node) if pid not in told}
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return found


def working_below(ancestor: int) -> Iterator[int]:
    """Descendants of a process that are Ray's workers and doing something, or what was submitted as a job."""
    parents = dict(_processes())
    for pid in parents:
        above = pid
        while above not in (0, ancestor):
            above = parents.get(above, 0)
        if above == ancestor and (_is_trial(pid) or _is_of_a_job(pid)):
            yield pid


def _processes() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            yield int(entry.name), int(fields[1])


def _is_trial(pid: int) -> bool:
    """Whether it is one by what Ray's workers call themselves."""
    title = _read(pid, "cmdline").decode(errors="replace")
    return title.startswith("ray::") and not title.removeprefix("ray::").strip().startswith(NO_TRIALS)


def _is_of_a_job(pid: int) -> bool:
    return any(variable.startswith(OF_A_JOB) for variable in _read(pid, "environ").split(b"\0"))


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
