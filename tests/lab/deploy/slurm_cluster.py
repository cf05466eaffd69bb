"""Slurm on this machine: a controller and nodes n1, n2, each with a network, a host name and addresses of its own.

Debian's slurmctld, slurmd and munged run with a configuration and a key in a temporary folder; nothing in /etc is read
or written. Jobs are of this user (root), whose processes no cgroup holds together: `proctrack/linuxproc`.

    with Slurm(Path("/tmp/a-folder")) as slurm:      # everything that was started is gone afterwards
        job = slurm.submit(SCRIPT, ["--time=5"], STORE="/tmp/a-folder/store")
        slurm.wait(job, "COMPLETED")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.lab.chaos.cluster import base_environment, namespaces_allowed
from tests.lab.chaos.processes import end_all
from tests.lab.deploy.networks import Bridge

NODES = ("n1", "n2")
_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "scancel", "unshare")
_PATH = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}
# A requeued job waits until the credentials of its first run have expired, two minutes by default.
_CONF = """
ClusterName=test
SlurmctldHost=ctl({controller})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
SchedulerParameters=sched_interval=3,bf_interval=3
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no such cluster here; None if there can."""
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"no {', '.join(absent)}: `make test-deploy` installs slurm-wlm and munge as root on Debian"
    return None if namespaces_allowed() else "networks of their own need root and iproute2"


class Slurm:
    """A controller and two nodes.

    Attributes:
        folder: Where everything is, and where jobs are submitted.
        addresses: Of the controller and the nodes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses: dict[str, str] = {}
        self._spaces: dict[str, str] = {}
        self._stack = ExitStack()
        environment = base_environment(folder) | {"SLURM_CONF": str(folder / "slurm.conf"), "RAY_worker_niceness": "0"}
        self._before = set(_job_folders())
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._environment = environment | {"PATH": f"{environment['PATH']}{os.pathsep}/usr/sbin"}

    def __enter__(self) -> Slurm:
        with ExitStack() as stack:
            bridge = stack.enter_context(Bridge(self.folder))
            stack.callback(self._end)
            self._spaces["ctl"], self.addresses["ctl"] = bridge.host, bridge.gateway
            for name in NODES:
                self._spaces[name], self.addresses[name] = bridge.attach()
            self._write_files()
            # It checks its key's owner and mode, and all folders above it.
            self._start("ctl", "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                        f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munge.pid",
                        f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munge.log")  # fmt: skip
            self._start("ctl", "slurmctld", "-D", "-c")
            for name in NODES:
                self._start(name, "slurmd", "-D", "-N", name)
            while self.ask("sinfo", "--noheader", "--format=%T %D").split() != ["idle", str(len(NODES))]:
                time.sleep(0.2)  # pytest's own limit ends what never becomes idle
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def ask(self, *words: str) -> str:
        """What a command of Slurm's prints; empty while the controller does not answer."""
        told = subprocess.run(
            self.inside("ctl", *words),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return told.stdout

    def inside(self, name: str, *words: str) -> list[str]:
        """A command on a node: in its network, with its host name and the names of all."""
        prepare = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
        # `ip netns exec` would hide /sys/fs/cgroup, which slurmd looks for.
        enter = [
            "nsenter",
            f"--net=/run/netns/{self._spaces[name]}",
            "unshare",
            "--mount",
            "--uts",
            "sh",
            "-c",
            prepare,
        ]
        return [*enter, "-", str(self.folder / "hosts"), name, *words]

    def submit(self, script: Path, options: list[str], **variables: str) -> int:
        """The number of a job with these options of sbatch and these variables; its output is in `log(job)`."""
        words = self.inside("ctl", "sbatch", "--parsable", *options, str(script))
        environment = self._environment | {"VENV": sys.prefix} | variables
        told = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        return int(told.stdout)

    def job(self, number: int | str) -> dict[str, str]:
        """What the controller says of a job, e.g. its JobState, Restarts and ExitCode."""
        words = self.ask("scontrol", "--oneliner", "show", "job", str(number)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, number: int | str, state: str) -> dict[str, str]:
        """What is said of a job when it has this state.

        Raises:
            AssertionError: It has ended in another one.
        """
        while (told := self.job(number)).get("JobState") != state:
            ended = told.get("JobState") in _ENDED
            assert not ended, f"job {number} is {told['JobState']}, not {state}:\n{self.log(number)[-4000:]}"
            time.sleep(0.2)
        return told

    def wait_until_gone(self, number: int, state: str) -> None:
        """Return when a job has ended in this state on all of its nodes: none is still completing."""
        self.wait(number, state)
        while (
            self.ask("squeue", "--noheader", f"--job={number}", "--states=all", "--format=%T").strip() == "COMPLETING"
        ):
            time.sleep(0.2)

    def log(self, number: int | str) -> str:
        """What a job has written."""
        path = self.folder / f"permafrost-{number}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def set_node(self, name: str, state: str) -> None:
        """As an operator does it: DOWN or RESUME."""
        self.ask("scontrol", "update", f"NodeName={name}", f"State={state}", "Reason=test")

    def _write_files(self) -> None:
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        (self.folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in self.addresses.items())
        )
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={self.addresses[name]} CPUs=4 RealMemory=64000 State=UNKNOWN" for name in NODES
        )
        text = _CONF.format(controller=self.addresses["ctl"], folder=self.folder, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(
                self.inside(name, *words), cwd=self.folder, env=self._environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._daemons.append(daemon)

    def _end(self) -> None:
        end_all(self.folder)
        for daemon in self._daemons:
            daemon.wait()
        for left in set(_job_folders()) - self._before:  # by jobs whose processes were killed
            shutil.rmtree(left, ignore_errors=True)


def _job_folders() -> Iterator[Path]:
    return Path("/tmp").glob("permafrost-[0-9]*-*")
