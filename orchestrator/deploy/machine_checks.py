"""Check that this machine is ready for a sweep: small functions that report a problem and its fix.

No check can hang or raise: each runs in a thread of its own with a time limit, and its errors are results too.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from orchestrator.config.quantities import counted
from orchestrator.deploy import ray_session
from orchestrator.deploy.ray_session import user_folder
from orchestrator.deploy.requirements import requirements
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec, check_room_here, device_line, settled
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.errors import ConfigError, MissingError, PermafrostError, is_out_of_memory
from trials.hardware.machine import VISIBLE, CudaGpus, listed_gpus, may_have_gpus, processor_name, usable_cores
from trials.plugins.import_origins import OURS, hidden_by
from trials.sources.cache import cache_root
from trials.sources.places.corpus_draft import named_corpus
from trials.sources.places.model_draft import named_model

Level = Literal["ok", "warn", "fail"]
LIMIT_S = 90.0  # of a check; importing torch from a cold disk is the slowest
CONNECT_S = 5.0
LOW_BYTES, TOO_FEW_BYTES = 5e9, 5e8
OLDEST_PYTHON = (3, 11)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HUB, TREEBANKS = "https://huggingface.co", "https://api.github.com"


@dataclass(frozen=True)
class CheckResult:
    """One result of a check.

    Attributes:
        level: ``ok``; ``warn`` if something will be missing or slow; ``fail`` if a sweep will not run.
        fix: How to fix it; empty if there is nothing to do.
    """

    check: str
    level: Level
    what: str
    fix: str = ""


Check = Callable[[], Iterator[CheckResult]]


def checks(store: str, sweep: Path | None, settings: Sequence[str], where: ClusterSpec) -> dict[str, Check]:
    """All checks by name, for a store, an optional sweep, and a cluster."""
    address = where.address
    by_name: dict[str, Check] = {
        "python": python,
        "packages": packages,
        "imports": lambda: imports(Path.cwd()),
        "devices": devices,
        "launch": lambda: launch_use(where, sweep, settings),
        "store": lambda: writable_store(store),
        "cache": lambda: disk("cache", cache_root(), "Set PERMAFROST_CACHE to a folder on a larger disk."),
        "ray": lambda: ray(os.environ, address),
        "browser": lambda: browser(os.environ),
    }
    if "://" in address:
        by_name["cluster"] = lambda: reachable(
            "cluster", address, "Check the address of its dashboard, and the network."
        )
    if sweep is not None:
        by_name["sweep"] = lambda: sweep_inputs(sweep, settings)
    return by_name


def examined(wanted: Mapping[str, Check], limit_s: float = LIMIT_S) -> Iterator[CheckResult]:
    """The results of checks, in order; a check that hangs or raises is a failed result."""
    for name, check in wanted.items():
        yield from _guarded(name, check, limit_s)


def _guarded(name: str, check: Check, limit_s: float) -> list[CheckResult]:
    results: list[CheckResult] = []

    def go() -> None:
        try:
            results.extend(check())
        except Exception as error:  # the other checks must still run
            text = f"the check itself failed ({type(error).__name__}: {error})"
            results.append(CheckResult(name, "fail", text, "Check what it names."))

    thread = threading.Thread(target=go, name=f"check {name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        return [
            CheckResult(
                name, "fail", f"no answer within {limit_s:g} s", "Check the disks and the network: one may hang."
            )
        ]
    return results


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[CheckResult]:
    """Whether Python is new enough."""
    text = ".".join(map(str, version))
    if version[:2] < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield CheckResult("python", "fail", f"Python {text} is too old", f"Use Python {oldest} or newer.")
    else:
        yield CheckResult("python", "ok", f"Python {text} on {platform.machine()}")


def packages(wanted: Sequence[str] | None = None) -> Iterator[CheckResult]:
    """Whether every required package is installed in an allowed version."""
    required = requirements() if wanted is None else wanted
    needed = [requirement for requirement in map(_requirement, required) if requirement is not None]
    bad = 0
    for requirement in needed:
        try:
            there = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            bad += 1
            yield CheckResult(
                "packages", "fail", f"{requirement.name} is not installed", f'pip install "{requirement}"'
            )
            continue
        if not requirement.specifier.contains(there, prereleases=True):
            bad += 1
            yield CheckResult(
                "packages",
                "warn",
                f"{requirement.name} {there} is not a tested version",
                f'pip install "{requirement}"',
            )
    if not bad:
        shown = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "ray"))
        yield CheckResult("packages", "ok", f"{len(needed)} packages, {shown}")


def imports(folder: Path) -> Iterator[CheckResult]:
    """Which files our packages are imported from, and whether a folder has others of their names."""
    files = [str(import_module(name).__file__) for name in OURS]
    yield CheckResult("imports", "ok", ", ".join(files))
    for name, path in hidden_by(str(folder)).items():
        yield CheckResult(
            "imports", "warn", f"{path} has the name of our package `{name}`; `permafrost` does not import it",
            f"In this folder use `permafrost`, not `python -m {name}`; a script that imports `{name}` first needs "
            "`python -P`. Or rename the file.",
        )  # fmt: skip


def _requirement(text: str) -> Requirement | None:
    """The requirement if it always applies; None for extras."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    return requirement if requirement.marker is None or requirement.marker.evaluate({"extra": ""}) else None


def devices(
    list_gpus: Callable[[], CudaGpus] = listed_gpus, *, may_have: Callable[[], bool] = may_have_gpus
) -> Iterator[CheckResult]:
    """The CPU, the cores of it that this process may use, the memory, the GPUs that torch sees, and its warnings."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mine, cores = usable_cores(), os.cpu_count() or 1
    share = f"{mine} of {counted(cores, 'core')} (affinity or cgroup)" if mine < cores else counted(cores, "core")
    yield CheckResult("devices", "ok", f"{processor_name()}, {share}, {total / 1e9:.0f} GB of memory")
    try:
        gpus = list_gpus()
    except MissingError as error:
        fix = "Check the driver with nvidia-smi; pip install --force-reinstall torch"
        yield CheckResult("devices", "fail", str(error), fix)
        return
    for gpu in gpus.found:
        yield CheckResult("devices", "ok", f"GPU {gpu.name}, {gpu.n_bytes / 1e9:.0f} GB")
    for note in gpus.notes:
        yield CheckResult("devices", "warn", note, _fix_of(note))
    if gpus.why_none:
        yield CheckResult("devices", "fail", gpus.why_none, _fix_of(gpus.why_none))
    if gpus.found or may_have():
        yield from _torch_and_gpus(gpus)


OTHER_DRIVER = (
    "Update the driver to 580 or newer, or `make setup TORCH=cu126` (driver 525, compute capability 5.0); see"
)
GPU_PAGE = "docs/pages/howto/gpu.md"


FREE_MEMORY = "Free its memory: nvidia-smi lists who holds it."


def _fix_of(why: str) -> str:
    """What helps where torch cannot compute on GPUs; a full one wants no other driver."""
    return FREE_MEMORY if is_out_of_memory(RuntimeError(why)) else f"{OTHER_DRIVER} {GPU_PAGE}"


def _torch_and_gpus(gpus: CudaGpus) -> Iterator[CheckResult]:
    """Why torch sees no GPU where there is a driver, or what it says of those that it sees."""
    hidden = os.environ.get(VISIBLE)
    if gpus.cuda and gpus.said:
        what = f"torch {gpus.torch} for CUDA {gpus.cuda} says of the GPUs: {' '.join(gpus.said)}"
        yield CheckResult("devices", "warn", what, f"{OTHER_DRIVER} {GPU_PAGE}")
    elif not gpus.found and not gpus.why_none:
        what, fix = (
            f"there is a driver for GPUs, but torch {gpus.torch}",
            f"Check the driver with nvidia-smi; {GPU_PAGE}",
        )
        if not gpus.cuda:
            what, fix = f"{what} was built without CUDA", f"make setup TORCH=cuda; {GPU_PAGE}"
        elif hidden is not None:
            what, fix = f"{what} sees none: {VISIBLE}={hidden!r}", f"Unset {VISIBLE}, or name GPUs that there are."
        else:
            what = f"{what} sees none"
        yield CheckResult("devices", "warn", what, fix)


def launch_use(where: ClusterSpec, path: Path | None, settings: Sequence[str]) -> Iterator[CheckResult]:
    """What the trials of a launch would run on: those of a sweep, else those of one that says nothing of resources."""
    sweep = load_sweep(path, list(settings))[0] if path else SweepSpec(name="any")
    resources = settled(where, sweep).resources
    line = device_line(where, resources)
    try:
        check_room_here(where, resources)
    except PermafrostError as error:
        yield CheckResult("launch", "fail", str(error), "permafrost launch --set resources.gpus=auto")
    else:
        yield CheckResult("launch", "ok", f"trials run on {line}")


def writable_store(address: str) -> Iterator[CheckResult]:
    """Whether the store can be read and written, and has free space."""
    fix = "Give another store with --store, or get access to this one."
    try:
        storage = open_store(address, must_exist=False).storage
    except PermafrostError as error:
        yield CheckResult("store", "fail", str(error), fix)
        return
    if "://" in storage.address:
        yield CheckResult("store", "ok", f"{storage.address} answers")
    else:
        yield from disk("store", Path(storage.address), "Give a folder on another disk with --store.")


def disk(check: str, folder: Path, fix: str, *, low: float = LOW_BYTES) -> Iterator[CheckResult]:
    """Whether a folder, or the one it will be created in, can be written and has free space."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield CheckResult(check, "fail", f"{folder} cannot be written", fix)
        return
    free = shutil.disk_usage(there).free
    level: Level = "fail" if free < TOO_FEW_BYTES else "warn" if free < low else "ok"
    yield CheckResult(check, level, f"{folder}: {free / 1e9:.1f} GB free", "" if level == "ok" else fix)


def ray(environment: Mapping[str, str], address: str) -> Iterator[CheckResult]:
    """Where a local Ray would have its files, and whether other users could use Ray. No token is ever shown.

    Args:
        environment: The variables.
        address: The cluster's address or keyword. What only matters to others is no more than a warning.
    """
    is_local = address in ("local", "inline")
    try:
        if not ray_session.is_required(environment):
            yield CheckResult("ray", "warn", ray_session.NO_TOKEN, f"Unset {ray_session.MODE}.")
            return
        if is_local:
            folder = user_folder(environment)
            yield CheckResult("ray", "ok", f"each local sweep has a token of its own, below {folder}")
            yield from disk("ray", folder, "Name a folder on another disk in RAY_TMPDIR.", low=TOO_FEW_BYTES)
    except PermafrostError as error:
        yield CheckResult("ray", "fail", str(error), "Fix what it names.")
        return
    try:
        path = ray_session.token_file(environment)
    except PermafrostError as error:
        yield CheckResult("ray", "warn" if is_local else "fail", f"for clusters: {error}", "Fix what it names.")
        return
    if environment.get(ray_session.TOKEN):
        yield CheckResult("ray", "ok", f"the token for clusters is in {ray_session.TOKEN}")
    elif path is not None:
        yield CheckResult("ray", "ok", f"the token for clusters is in {path}, which only you can read")
    elif not is_local:
        fix = f"Name a file with the cluster's token in {ray_session.TOKEN_PATH}."
        yield CheckResult("ray", "warn", "there is no token for clusters", fix)


def reachable(check: str, url: str, fix: str, timeout_s: float = CONNECT_S) -> Iterator[CheckResult]:
    """Whether a server listens at a URL's host and port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=timeout_s).close()
    except OSError as error:
        yield CheckResult(check, "fail", f"{parts.hostname}:{port} cannot be reached ({error})", fix)
    else:
        yield CheckResult(check, "ok", f"{parts.hostname}:{port} answers")


def sweep_inputs(
    path: Path, settings: Sequence[str], *, hub: str | None = None, treebanks: str = TREEBANKS
) -> Iterator[CheckResult]:
    """Whether a sweep's data and models are on this machine; if not, whether they can be fetched."""
    try:
        declared, document = load_sweep(path, list(settings))
        n = len(expand(declared, document, Lookup(offline=True)))
    except PermafrostError as error:
        if error.exit_code != 3:
            yield CheckResult("sweep", "fail", str(error), "Fix what it names.")
            return
        hosts = {"hub": hub or os.environ.get("HF_ENDPOINT") or HUB, "ud": treebanks}
        asked = [hosts[kind] for kind in dict.fromkeys(_fetched_from(document.content))]
        fix = f"permafrost data fetch --sweep {path}, on a machine with network access and the same cache"
        unreachable = [
            result.what for host in asked for result in reachable("sweep", host, fix) if result.level == "fail"
        ]
        if not asked or unreachable:
            why = f" ({'; '.join(unreachable)})" if unreachable else ""
            yield CheckResult(
                "sweep", "fail", f"{error}{why}", fix if asked else "Put the files where the sweep expects them."
            )
        else:
            what = "some of its data or models are missing; the launch fetches them"
            yield CheckResult("sweep", "warn", what, f"permafrost data fetch --sweep {path}, to fetch them now")
        return
    yield CheckResult("sweep", "ok", f"{declared.name}: {n:,} trials, all data and models are present")


def _fetched_from(value: object, key: str = "") -> Iterator[str]:
    """`hub` or `ud` for each of a sweep's data and models that may have to be fetched from there."""
    with contextlib.suppress(ConfigError):
        if isinstance(value, dict):
            yield from (word for word in ("hub", "ud") if isinstance(value.get(word), str))
            for name, inner in value.items():
                yield from _fetched_from(inner, str(name).rpartition(".")[2] if name != "choice" else key)
        elif isinstance(value, list):
            for inner in value:
                yield from _fetched_from(inner, key)
        elif isinstance(value, str) and key in ("data", "model"):
            named = named_model(value) if key == "model" else named_corpus(value)
            yield from (word for word in ("hub", "ud") if getattr(named, word, None))


def browser(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Whether there is a Chromium to render the figures of reports and exports."""
    chromium = find_browser(environment)
    fix = "apt install chromium, or name one in PERMAFROST_CHROMIUM"
    if chromium is None:
        yield CheckResult("browser", "warn", "no Chromium, so reports have no SVG, PDF or PNG figures", fix)
    elif not os.access(chromium, os.X_OK):
        yield CheckResult("browser", "warn", f"PERMAFROST_CHROMIUM names {chromium}, which cannot be executed", fix)
    else:
        yield CheckResult("browser", "ok", f"figures are rendered with {chromium}")


def find_browser(environment: Mapping[str, str] = os.environ) -> str | None:
    """Path of a Chromium: the one that PERMAFROST_CHROMIUM names, else the first on the path; None if there is none."""
    named = environment.get("PERMAFROST_CHROMIUM")
    return named or next((there for name in BROWSERS if (there := shutil.which(name))), None)
