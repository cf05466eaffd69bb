"""One command for a GPU: measure everything that is claimed about one, each part in a process and a time of its own.

python -m tests.lab.gpu --out DIR [--rehearse] [--only PART]

It needs this checkout, torch and transformers, and neither Ray nor a network. Every part writes DIR/PART.json while it
runs; DIR/summary.json holds all of them. `--rehearse` runs all of it on a CPU with tiny models in about two minutes.
The exit code is 1 if a part failed or a claim of exactness does not hold, and 2 if the machine lacks what is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.lab.gpu.results import table
from tests.lab.gpu.runner import BUDGETS_S, run_all

ROOT = Path(__file__).parents[3]
STAND_INS = Path(__file__).parent / "bare"
NEEDED = {name: name for name in ("torch", "transformers", "numpy", "safetensors", "tokenizers")} | {"yaml": "pyyaml"}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--rehearse", action="store_true", help="tiny models, on a CPU too")
    parser.add_argument("--only", choices=list(BUDGETS_S), action="append", help="one part; may be repeated")
    args = parser.parse_args(argv)
    missing = [name for name in NEEDED if not _is_there(name)]
    if missing:
        packages = " ".join(NEEDED[name] for name in missing)
        sys.stderr.write(
            f"missing: {', '.join(missing)}. Where there is a network: python -m pip download -d wheels {packages}; "
            f"here: python -m pip install --no-index --find-links wheels {packages}\n"
        )
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="permafrost-gpu-") as work:
        _set_environment(Path(work))
        if args.rehearse:
            os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait for each other make tiny products slow
        parts = run_all(args.out.resolve(), Path(work), args.only or list(BUDGETS_S), rehearse=args.rehearse)
    sys.stdout.write(f"{table(parts)}\n")
    if parts["machine"]["status"] != "done":
        return 2
    broken = [part for part in parts.values() if part["status"] == "failed" or _is_broken(part)]
    return 1 if broken else 0


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _is_broken(part: dict[str, Any]) -> bool:
    return any(not check["holds"] and not check["is_goal"] for check in part["checks"])


def _set_environment(work: Path) -> None:
    """What every process inherits."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    if not _is_there("pydantic"):
        sys.stderr.write("pydantic is missing: settings are built without being validated\n")
        path.append(str(STAND_INS))
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(path),
        "PERMAFROST_CACHE": str(work / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0],  # one card
        # Whether there is a GPU is then asked without a CUDA context, which a forked process could not use.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
    sys.path[:] = [*sys.path, *(entry for entry in path if entry not in sys.path)]


if __name__ == "__main__":
    sys.exit(main())
