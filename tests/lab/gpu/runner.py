"""Run the parts, each in a process and a time of its own, and describe how each ended."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tests.lab.gpu.part_context import REHEARSED, NoTimeError, PartContext
from tests.lab.gpu.results import Record, read_json, write_json

# Seconds that each part may take, in order: the most telling first. All of them together are cut at MOST_S.
BUDGETS_S = {
    "product": 310,
    "machine": 20,
    "exactness": 90,
    "steps": 70,
    "gpu_tests": 35,
    "energy": 15,
}
MOST_S = 540.0
PARTS = "tests.lab.gpu.parts"
OURS = ("trials", "orchestrator", "tests")
MACHINE = "machine"  # the part without which none of those that follow has a meaning


def run_all(out: Path, work: Path, names: list[str], *, rehearse: bool) -> dict[str, dict[str, Any]]:
    """Every part in order; the summary, which holds what each has found, is written after each."""
    began, parts = time.monotonic(), dict[str, dict[str, Any]]()
    for name in [name for name in BUDGETS_S if name in names or name == MACHINE]:
        if name == MACHINE:
            _settle_environment(work)
        times = REHEARSED if rehearse else 1.0
        left = times * MOST_S - (time.monotonic() - began)
        if left < 5:
            parts[name] = _described(out, name, "not run", "no time was left", 0.0)
            continue
        parts[name] = run_part(out, work, name, min(times * BUDGETS_S[name], left), rehearse)
        write_json(out / "summary.json", {"parts": parts, "seconds": time.monotonic() - began, "rehearsal": rehearse})
        sys.stderr.write(f"{name}: {parts[name]['status']}, {parts[name]['seconds']:.0f} s\n")
        if name == MACHINE and parts[name]["status"] != "done":
            break
    return parts


def _settle_environment(work: Path) -> None:
    """What the parts beside the product inherit; the product's launches have none of it."""
    os.environ |= {
        "PERMAFROST_CACHE": str(work / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0],  # one card
    }


def run_part(out: Path, work: Path, name: str, budget_s: float, rehearse: bool) -> dict[str, Any]:
    """Run a part in a process of its own and describe its end."""
    for old in (out / f"{name}.json", work / f"{name}.end"):
        old.unlink(missing_ok=True)
    began = time.monotonic()
    words = (out, work, name, budget_s, rehearse)
    process = multiprocessing.get_context("spawn").Process(target=_child, args=words)
    process.start()
    process.join(budget_s)
    seconds = time.monotonic() - began
    if process.is_alive():
        process.kill()
        process.join()
        return _described(out, name, "cut", f"it took longer than its {budget_s:.0f} s", seconds)
    end = read_json(work / f"{name}.end")
    if not end:
        return _described(out, name, "failed", f"its process ended with exit code {process.exitcode}", seconds)
    return _described(out, name, end["status"], end["reason"], seconds)


def _described(out: Path, name: str, status: str, reason: str | None, seconds: float) -> dict[str, Any]:
    path = out / f"{name}.json"
    found = {"figures": {}, "checks": []} | read_json(path)
    path.unlink(missing_ok=True)
    return {"part": name, "status": status, "reason": reason, "seconds": round(seconds, 1), **found}


def _child(out: Path, work: Path, name: str, budget_s: float, rehearse: bool) -> None:
    """Run a part and note how it ended; a module that the machine lacks is no failure."""
    record = Record(out / f"{name}.json")
    status, reason = "done", None
    try:
        module = importlib.import_module(f"{PARTS}.{name}")
        gc.freeze()  # the libraries' objects stay: collecting between measurements need not visit them
        module.run(PartContext(out, work, rehearse, budget_s), record)
    except NoTimeError as error:
        status, reason = "cut", str(error)
    except Exception as error:
        record.note(error=traceback.format_exc())
        status, reason = "failed", traceback.format_exc().strip().splitlines()[-1]
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in OURS:
            status, reason = "skipped", f"needs {error.name}, which is not installed here"
    write_json(work / f"{name}.end", {"status": status, "reason": reason})
