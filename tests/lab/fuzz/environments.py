"""Environments by number: variables that we, Ray, Python and the libraries read, with values that make no sense there.

A cheap command runs in each, in a process of its own, as many variables are read when a module is imported.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.builders import write_sweep, write_treebank
from tests.lab.chaos.cluster import CHECKOUT
from tests.lab.fuzz.judging import Verdict

SCRIPT = str(Path(sys.executable).with_name("permafrost"))
LIMIT_S = 100.0  # a command takes two; the machine may be busy
_PUBLIC_CODES = {0, 1, 2, 3, 4, 5}
_PLACES = ("HOME", "TMPDIR", "PERMAFROST_CACHE", "XDG_CACHE_HOME", "HF_HOME", "RAY_TMPDIR", "MPLCONFIGDIR")
_RAYS = (
    "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH",
    "RAY_CLIENT_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_GCS_SERVER_PORT", "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_JOB_HEADERS", "RAY_JOB_ID", "RAY_LOGGER_LEVEL", "RAY_NAMESPACE",
    "RAY_OVERRIDE_DASHBOARD_URL", "RAY_REDIS_ADDRESS", "RAY_ROTATION_MAX_BYTES",
    "RAY_RUNTIME_ENV_HOOK", "RAY_USE_TLS",
)  # fmt: skip
_OURS = (
    "PERMAFROST_CHROMIUM", "PERMAFROST_CUDA_GRAPHS", "PERMAFROST_DASHBOARD_TOKEN", "PERMAFROST_DASHBOARD_URL",
    "PERMAFROST_GRACE_S", "PERMAFROST_NODE_BYTES", "PERMAFROST_UD_URL",
)  # fmt: skip
_OTHERS = (
    "ALL_PROXY", "AWS_ENDPOINT_URL", "AWS_REGION", "COLUMNS", "CUDA_VISIBLE_DEVICES", "HF_ENDPOINT", "HF_HUB_OFFLINE",
    "HF_TOKEN", "HTTPS_PROXY", "LANG", "LC_ALL", "LINES", "LOGNAME", "MKL_NUM_THREADS", "NO_COLOR", "OMP_NUM_THREADS",
    "SSL_CERT_FILE", "TERM", "TOKENIZERS_PARALLELISM", "TZ", "USER",
)  # fmt: skip
# Python ends by itself with most other values of these.
_PYTHONS = {
    "PYTHONDEVMODE": ("1",), "PYTHONHASHSEED": ("0", "1", "random"), "PYTHONOPTIMIZE": ("1", "2"),
    "PYTHONUTF8": ("0", "1"),
    "PYTHONIOENCODING": ("ascii", "latin-1", "utf-8"), "PYTHONSAFEPATH": ("1",),
    "PYTHONPYCACHEPREFIX": ("/dev/null/x",),
    "PYTHONWARNINGS": ("error", "default", "nonsense"), "PYTHONNODEBUGRANGES": ("1",), "PYTHONCOERCECLOCALE": ("0",),
}  # fmt: skip
_VALUES = (
    "", " ", "0", "1", "-1", "nan", "1e999", "9" * 400, "x" * 5000, "/" + "y/" * 100, "nonsense", "disabled", "token",
    "TOKEN", "true", "None", "{}", "[", "/", ".", "~", "~nobody-here", "/nonexistent/a", "/dev/null", "/dev/full",
    "/proc", "/proc/self/mem", "/etc/passwd", "127.0.0.1:1", "http://127.0.0.1:1", "http://[::1", "ray://127.0.0.1:1",
    "auto", "\x1b[31mred", "a\nTraceback (most recent call last):", "é", "日本", "\udcff\udcfe", "%s%n", "$(id)", "C",
    "dumb",
)  # fmt: skip
_COMMANDS = (
    ("plan", "--sweep", "s.yaml", "--store", "store"),
    ("doctor", "--sweep", "s.yaml", "--store", "store"),
    ("launch", "--sweep", "s.yaml", "--store", "store", "--cluster", "inline"),
    ("launch", "--sweep", "s.yaml", "--store", "store", "--dry-run"),
    ("status", "--store", "store"),
    ("status", "--follow", "--cluster", "http://127.0.0.1:1"),
)


_UNSET = ("RAY_", "PERMAFROST_", "COVERAGE_")  # the last starts coverage, which hostile variables would break


class Environment(NamedTuple):
    """Variables, and the command that meets them.

    Attributes:
        kind: The command's name.
        variables: What is set.
        words: The command.
    """

    kind: str
    variables: dict[str, str]
    words: tuple[str, ...]


class Environments:
    """Makes environments and runs commands in them.

    Attributes:
        folder: Where the sweep and its store are.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        write_treebank(folder / "bank", train=6, dev=2, test=2)
        write_sweep(folder / "s.yaml", "name: s\ntrial: {data: {folder: bank}, optim: {epochs: 1}}\n")

    def make(self, number: int) -> Environment:
        """The environment of this number, always the same."""
        rng = random.Random(f"environment {self.seed} {number}")
        names = (*_PLACES, *_PLACES, *_RAYS, *_OURS, *_OTHERS, *_PYTHONS)
        chosen = rng.sample(names, rng.choice((1, 1, 2, 4, 8)))
        variables = {name: rng.choice(_PYTHONS.get(name, _VALUES)) for name in chosen}
        words = _COMMANDS[number % len(_COMMANDS)]
        return Environment(words[0], variables, words)

    def try_out(self, environment: Environment) -> Verdict:
        """Run the command and judge how it ends."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_UNSET)}
        own = {"HOME": str(self.folder), "PYTHONPATH": str(CHECKOUT), "RAY_AUTH_TOKEN": "x" * 32}
        variables = inherited | own | environment.variables
        try:
            done = subprocess.run(
                [SCRIPT, *environment.words],
                cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict("finding", f"hangs: still at it after {LIMIT_S:g} s")
        said = done.stderr.decode("utf-8", "backslashreplace")
        if any(line.startswith("Traceback") for line in said.splitlines()) or done.returncode not in _PUBLIC_CODES:
            return Verdict("finding", f"exit code {done.returncode}: {said[-600:]}")
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        if done.returncode in (2, 3, 4) and len(lines) != 1:
            return Verdict("finding", f"exit code {done.returncode} with {len(lines)} messages: {said[-600:]}")
        return Verdict("refused", lines[0]) if lines else Verdict("works")
