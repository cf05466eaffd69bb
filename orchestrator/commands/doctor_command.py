"""Check that this machine is ready for sweeps; every problem comes with a fix.

permafrost doctor
permafrost doctor --store s3://bucket/results --json
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, stdout
from orchestrator.config.quantities import amount
from orchestrator.deploy.ray_session import MODE, NO_TOKEN
from orchestrator.store import open_store
from trials.errors import PermafrostError, is_out_of_memory
from trials.hardware.machine import VISIBLE, listed_gpus, may_have_gpus, processor_name, usable_cores
from trials.sources.cache import cache_root

Level = Literal["ok", "warn", "fail"]
LOW_BYTES, TOO_FEW_BYTES = 5e9, 5e8  # free: below a warning, below a failure
OLDEST_PYTHON = (3, 11)  # the lower bound in `requires-python`
GPU_PAGE = "docs/pages/howto/gpu.md"
OTHER_DRIVER = f"Update the driver, or `make setup TORCH=cu126`; {GPU_PAGE}"
FREE_MEMORY = "Free its memory: nvidia-smi lists who holds it."
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


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


def doctor(
    store: options.Store = DEFAULT_STORE,
    as_json: options.Json = False,
) -> None:
    """Check that this machine is ready: Python, torch and CUDA, the store, the disk, and that Ray starts.

    Examples:
        permafrost doctor

        permafrost doctor --store s3://bucket/results

    Exit codes: 0 ready, perhaps with warnings, 1 some check failed.
    """
    with errors_as_exit_codes():
        checks: dict[str, Callable[[], Iterator[CheckResult]]] = {
            "python": check_python,
            "torch": check_torch,
            "store": lambda: check_store(store),
            "cache": check_cache,
            "ray": check_ray,
        }
        results = list(examined(checks))
        if as_json:
            print(json.dumps({"findings": [asdict(result) for result in results]}))
        else:
            stdout.print(_table(results))
        failed = any(result.level == "fail" for result in results)
    raise typer.Exit(int(failed))


def examined(checks: Mapping[str, Callable[[], Iterator[CheckResult]]]) -> Iterator[CheckResult]:
    """The results of checks by name, in order; what one raises is a failed result, and the others run all the same."""
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            text = str(error) if isinstance(error, PermafrostError) else f"{type(error).__name__}: {error}"
            yield CheckResult(name, "fail", text, "Fix what it names.")


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[CheckResult]:
    """Whether Python is new enough."""
    text, oldest = (".".join(map(str, part)) for part in (version, OLDEST_PYTHON))
    if version[:2] < OLDEST_PYTHON:
        yield CheckResult("python", "fail", f"Python {text} is too old", f"Use Python {oldest} or newer.")
    else:
        yield CheckResult("python", "ok", f"Python {text} on {platform.machine()}")


def check_torch() -> Iterator[CheckResult]:
    """torch, the cores and memory that trials may use, the GPUs that it computes on, and why it does not on others."""
    gpus, hidden = listed_gpus(), os.environ.get(VISIBLE)
    build = f"torch {gpus.torch}" + (f" for CUDA {gpus.cuda}" if gpus.cuda else "")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mine, cores = usable_cores(), os.cpu_count() or 1
    share = f"{mine} of {amount(cores, 'core')} (affinity or cgroup)" if mine < cores else amount(cores, "core")
    on_cpu = "" if gpus.found or may_have_gpus() else "; there is no driver for a GPU, so trials run on the CPU"
    yield CheckResult("torch", "ok", f"{build} on {processor_name()}, {share}, {total / 1e9:.0f} GB of memory{on_cpu}")
    for gpu in gpus.found:
        yield CheckResult("torch", "ok", f"GPU {gpu.name}, {gpu.n_bytes / 1e9:.0f} GB")
    for note in gpus.notes:
        yield CheckResult("torch", "warn", note, _fix_of(note))
    if gpus.why_none:
        yield CheckResult("torch", "fail", gpus.why_none, _fix_of(gpus.why_none))
    elif on_cpu:
        return
    elif gpus.cuda and gpus.warnings:
        yield CheckResult("torch", "warn", f"{build} says of the GPUs: {' '.join(gpus.warnings)}", OTHER_DRIVER)
    elif not gpus.found:
        what, fix = f"there is a driver for GPUs, but {build}", f"Check the driver with nvidia-smi; {GPU_PAGE}"
        if not gpus.cuda:
            what, fix = f"{what} was built without CUDA", f"make setup TORCH=cuda; {GPU_PAGE}"
        elif hidden is not None:
            what, fix = f"{what} sees none: {VISIBLE}={hidden!r}", f"Unset {VISIBLE}, or name GPUs that there are."
        else:
            what = f"{what} sees none"
        yield CheckResult("torch", "warn", what, fix)


def _fix_of(why: str) -> str:
    """What helps where torch cannot compute on GPUs; a full one wants no other driver."""
    return FREE_MEMORY if is_out_of_memory(RuntimeError(why)) else OTHER_DRIVER


def check_store(address: str) -> Iterator[CheckResult]:
    """Whether the store can be read and written, and has free space."""
    try:
        storage = open_store(address, must_exist=False).storage
    except PermafrostError as error:
        yield CheckResult("store", "fail", str(error), "Give another store with --store, or get access to this one.")
        return
    if "://" in storage.address:
        yield CheckResult("store", "ok", f"{storage.address} answers")
    else:
        yield from check_disk("store", Path(storage.address), "Give a folder on another disk with --store.")


def check_cache() -> Iterator[CheckResult]:
    """Whether the cache has free space."""
    yield from check_disk("cache", cache_root(), "Set PERMAFROST_CACHE to a folder on a larger disk.")


def check_disk(check: str, folder: Path, fix: str, *, low: float = LOW_BYTES) -> Iterator[CheckResult]:
    """Whether a folder, or the one it will be created in, can be written and has free space."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield CheckResult(check, "fail", f"{folder} cannot be written", fix)
        return
    free = shutil.disk_usage(there).free
    level: Level = "fail" if free < TOO_FEW_BYTES else "warn" if free < low else "ok"
    yield CheckResult(check, level, f"{folder}: {free / 1e9:.1f} GB free", "" if level == "ok" else fix)


def check_ray() -> Iterator[CheckResult]:
    """Whether a local Ray starts, and asks for a token."""
    from orchestrator.ray_engine.cluster import local_cluster

    began = time.monotonic()
    with local_cluster() as cluster:
        yield CheckResult("ray", "ok", f"a local Ray started in {time.monotonic() - began:.0f} s")
        if cluster.token_hint == NO_TOKEN:
            yield CheckResult("ray", "warn", NO_TOKEN, f"Unset {MODE}.")


def _table(results: Sequence[CheckResult]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result in results:
        table.add_row(Text(result.level, style=_COLOURS[result.level]), result.check, Text(result.what))
        if result.fix:
            table.add_row("", "", Text(f"-> {result.fix}"))
    return table
