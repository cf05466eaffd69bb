"""One container as Docker runs it without a network: namespaces of its own, no rights, a read-only root.

With chroot isolation `buildah run` has no such thing, so util-linux makes the namespaces over the files of an image.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SPACES = ("--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child")


def run_container(
    root: Path, words: Sequence[str], config: Mapping[str, str], user: str, folder: Path, results: Path, seconds: float
) -> str:
    """What a command says that runs to its end over an image's files, `results` mounted at /results.

    Args:
        config: Variables; `WORKDIR` is where it works.

    Raises:
        AssertionError: It ended badly.
        subprocess.TimeoutExpired: It ran on.
    """
    for name in ("root", "written", "etc"):
        (folder / name).mkdir(parents=True)
    etc = {"hosts": "127.0.0.1 localhost container\n", "hostname": "container\n", "resolv.conf": ""}
    for name, text in etc.items():
        (folder / "etc" / name).write_text(text, encoding="utf-8")
    inner, upper = folder / "root", folder / "written"  # on a file system of its own, gone with the namespace
    lines = [
        "hostname container",
        "ip link set lo up",
        f"mount -t tmpfs tmpfs {upper}",
        f"mkdir {upper}/up {upper}/work",
    ]
    options = f"lowerdir={root},upperdir={upper}/up,workdir={upper}/work"
    lines += [f"mount -t overlay overlay -o {options} {inner}", f"mount -t proc proc {inner}/proc"]
    lines += [f"mount -t sysfs -o ro sysfs {inner}/sys", f"mount -t tmpfs -o mode=755 tmpfs {inner}/dev"]
    lines += [f"touch {inner}/dev/{name}; mount --bind /dev/{name} {inner}/dev/{name}" for name in _DEVICES]
    lines += [f"mkdir {inner}/dev/shm", f"ln -s /proc/self/fd {inner}/dev/fd"]
    for place, size in (("/dev/shm", "64m"), ("/tmp", "50%"), ("/var/cache/permafrost", "50%")):
        lines += [f"mkdir -p {inner}{place}", f"mount -t tmpfs -o mode=1777,size={size} tmpfs {inner}{place}"]
    lines += [f"mkdir -p {inner}/results", f"mount --bind {results} {inner}/results"]
    for name in etc:
        lines += [f"touch -a {inner}/etc/{name}", f"mount --bind {folder}/etc/{name} {inner}/etc/{name}"]
    lines.append(f"mount -o remount,ro {inner}")
    number, _, group = user.partition(":")
    rights = ["setpriv", f"--reuid={number}", f"--regid={group or number}", "--clear-groups", "--inh-caps=-all"]
    rights += ["--bounding-set=-all", "--no-new-privs", "env", "-i", f"--chdir={config['WORKDIR']}"]
    variables = [f"{name}={value}" for name, value in config.items() if name != "WORKDIR"]
    lines.append(shlex.join(["exec", "chroot", str(inner), *rights, *variables, *words]))
    done = subprocess.run(
        ["unshare", *_SPACES, "sh", "-euc", "\n".join(lines)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout
