"""One container as Docker and Kubernetes run it: namespaces of its own, a process 1, no rights, a read-only root.

Debian's `buildah run` has no networks with chroot isolation, so util-linux makes the namespaces over an image's files.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_BEFORE = (b"", b"unshare", b"chroot", b"setpriv", b"env")  # what process 1 is before it is the container's own


@dataclass(frozen=True)
class Mount:
    """One mount: a file or folder of the machine, or where `source` is None a new file system in memory.

    Attributes:
        options: mount's, with commas.
    """

    place: str
    source: Path | None = None
    options: str = ""


@dataclass(frozen=True)
class Setup:
    """What a container is made of.

    Attributes:
        root: The image's files.
        words: The main process.
        user: `UID:GID`.
        capabilities: The ones that are kept, as setpriv names them.
        space: Network namespace; None is the machine's.
        nameserver: Address that resolves names.
        shm: Size of /dev/shm, as mount takes it.
        limits: What it may use, by file of cgroups of version 1 (`pids/pids.max`); nothing where a machine has others.
    """

    root: Path
    words: Sequence[str]
    environment: Mapping[str, str]
    user: str = "10001:10001"
    capabilities: Sequence[str] = ()
    mounts: Sequence[Mount] = ()
    read_only: bool = True
    working_directory: str = "/"
    hostname: str = "container"
    address: str = "127.0.0.1"
    space: str | None = None
    nameserver: str = ""
    shm: str = "64m"
    limits: Mapping[str, str] = field(default_factory=dict)


class Container:
    """A container that can be started, asked, signalled and started again.

    Attributes:
        log: What its main process said, of all starts.
    """

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup, self._folder, self.log = setup, folder, folder / "log"
        self._group = f"{setup.space}-{setup.hostname}"
        for part in ("root", "etc"):
            (folder / part).mkdir(parents=True)
        for name, text in self._etc().items():
            (folder / "etc" / name).write_text(text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start process 1; what was written to the root before is gone, as after `docker compose up`."""
        # `ip netns exec` would lay a new /sys over the machine's, and with it hide its cgroups.
        enter = ["nsenter", f"--net=/run/netns/{self.setup.space}"] if self.setup.space else []
        spaces = ["--mount", "--pid", "--ipc", "--uts"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*enter, "unshare", *spaces, "--fork", "--kill-child", "sh", "-euc", self._script()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command beside process 1, with the same rights (`docker exec`)."""
        enter = ["nsenter", "--target", str(self.first()), "--mount", "--pid", "--net", "--ipc", "--uts", "--root"]
        inside = [*enter, "--wd", *self._unprivileged(), *words]
        return subprocess.run(inside, capture_output=True, text=True, check=False, timeout=timeout)

    def first(self) -> int:
        """The number of process 1 outside, when it has become the container's own.

        Raises:
            AssertionError: It has ended, or does not begin.
        """
        assert self._process
        children = self._children()
        for _ in range(600):
            assert self._process.poll() is None, self.said()
            with contextlib.suppress(OSError, IndexError):
                number = int(children.read_text(encoding="ascii").split()[0])
                words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                if words[:2] != [b"sh", b"-euc"] and words[0] not in _BEFORE:
                    return number
            time.sleep(0.05)
        raise AssertionError(f"it does not begin: {self.said()}")

    def exit_code(self) -> int | None:
        """Negative where a signal ended it; None while it runs."""
        assert self._process
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """The exit code.

        Raises:
            AssertionError: It runs on.
        """
        assert self._process
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"runs on after {timeout} s: {self.said()}") from error

    def stop(self, grace_s: float) -> int:
        """SIGTERM, and SIGKILL after the grace (`docker stop`); the exit code."""
        assert self._process
        if self._process.poll() is None:
            os.kill(self.first(), signal.SIGTERM)
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL to everything in it."""
        if self._process is None or self._process.poll() is not None:
            return
        # unshare's --kill-child holds only until the child gives up its rights. With process 1 all others end.
        with contextlib.suppress(OSError, IndexError):
            os.kill(int(self._children().read_text(encoding="ascii").split()[0]), signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        """End it and take its limits away."""
        self.kill()
        for group in _CGROUPS.glob(f"*/{self._group}"):
            for _ in range(100):  # while its last process is still ending
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.05)

    def said(self, characters: int = 3000) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]

    def _children(self) -> Path:
        assert self._process
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")

    def _etc(self) -> dict[str, str]:
        setup = self.setup
        return {
            "hosts": f"127.0.0.1 localhost\n{setup.address} {setup.hostname}\n",
            "hostname": f"{setup.hostname}\n",
            "resolv.conf": f"nameserver {setup.nameserver}\noptions ndots:0\n" if setup.nameserver else "",
        }

    def _script(self) -> str:
        root, lines = self._folder / "root", [f"hostname {self.setup.hostname}"]
        upper = self._folder / "written"  # on a file system of its own, gone with the namespace
        upper.mkdir(exist_ok=True)
        lines += [f"mount -t tmpfs tmpfs {upper}", f"mkdir {upper}/up {upper}/work"]
        options = f"lowerdir={self.setup.root},upperdir={upper}/up,workdir={upper}/work"
        lines += [f"mount -t overlay overlay -o {options} {root}", f"mount -t proc proc {root}/proc"]
        lines += [f"mount -t sysfs -o ro sysfs {root}/sys", f"mount -t tmpfs -o mode=755 tmpfs {root}/dev"]
        lines += [f"touch {root}/dev/{name}; mount --bind /dev/{name} {root}/dev/{name}" for name in _DEVICES]
        lines += self._limited(root)
        lines += [f"mkdir {root}/dev/shm", f"ln -s /proc/self/fd {root}/dev/fd"]
        own = [Mount("/dev/shm", None, f"mode=1777,size={self.setup.shm}")]
        own += [Mount(f"/etc/{name}", self._folder / "etc" / name, "ro") for name in self._etc()]
        for mount in [*own, *self.setup.mounts]:
            lines += _mount(mount, root)
        if self.setup.read_only:
            lines.append(f"mount -o remount,ro {root}")
        lines.append(shlex.join(["exec", "chroot", str(root), *self._unprivileged(), *self.setup.words]))
        return "\n".join(lines)

    def _limited(self, root: Path) -> list[str]:
        """Join groups with its limits, and show those to the container where it looks for its own."""
        if not (_CGROUPS / "pids").is_dir():
            return []
        lines, shown = [f"mount -t tmpfs tmpfs {root}/sys/fs/cgroup"], f"{root}/sys/fs/cgroup"
        for file, limit in self.setup.limits.items():
            controller, _, name = file.partition("/")
            group = _CGROUPS / controller / self._group
            lines += [f"mkdir -p {group} {shown}/{controller}", f"echo {limit} >{group}/{name}"]
            lines += [f"echo 0 >{group}/cgroup.procs", f"mount --bind -o ro {group} {shown}/{controller}"]
        return lines

    def _unprivileged(self) -> list[str]:
        setup = self.setup
        user, _, group = setup.user.partition(":")
        kept = "".join(f",+{name}" for name in setup.capabilities)
        # Docker gives a root user what is in the bounding set, any other user nothing.
        words = ["setpriv", f"--reuid={user}", f"--regid={group or user}", "--clear-groups", "--inh-caps=-all"]
        words += [f"--bounding-set=-all{kept}", "--no-new-privs", "env", "-i", f"--chdir={setup.working_directory}"]
        return [*words, *(f"{name}={value}" for name, value in setup.environment.items())]


def _mount(mount: Mount, root: Path) -> list[str]:
    place = shlex.quote(f"{root}{mount.place}")
    if mount.source is None:
        return [f"mkdir -p {place}", f"mount -t tmpfs -o {mount.options or 'mode=1777'} tmpfs {place}"]
    source = shlex.quote(str(mount.source))
    made = [f"mkdir -p {place}"] if mount.source.is_dir() else [f"mkdir -p $(dirname {place})", f"touch -a {place}"]
    lines = [*made, f"mount --bind {source} {place}"]
    return [*lines, f"mount -o remount,bind,ro {place}"] if mount.options == "ro" else lines
