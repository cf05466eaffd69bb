"""One command for a GPU: first the product on it, then all that is claimed of one, each part in a time of its own.

python -m tests.lab.gpu --out DIR [--rehearse] [--only PART]
python -m tests.lab.gpu --carry DIR [--python 3.12]
python -m tests.lab.gpu --rehearse --carry DIR --out DIR    # with a DIR for the Python that runs it

DIR/summary.json holds what every part has found, DIR/PART.json that of the part that runs. The exit code is 0 if every
part was done and every claim holds, 1 if not, and 2 if the machine lacks what is needed. `--rehearse` runs all of it
with tiny models, on a CPU too, in some four minutes.

A machine with torch and transformers, but without Ray and without a package index, gets the rest by `--carry`: archives
in DIR. With `--rehearse` they are unpacked here, beside an environment of links to what such a machine has and nothing
else, and the rehearsal runs there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.lab.gpu.carry import HERE, PYTHON, ROOT, SITE, how_to_run, pieces_in, write_carry, write_project
from tests.lab.gpu.results import table
from tests.lab.gpu.runner import BUDGETS_S, run_all
from trials.hardware.machine import cuda_gpus

NEEDED = (  # of a launch without Ray, and of the parts
    "torch", "transformers", "numpy", "safetensors", "tokenizers", "yaml", "pyarrow", "pydantic", "typer", "rich",
    "conllu", "xxhash", "obstore", "scipy", "pynvml",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--rehearse", action="store_true", help="tiny models, on a CPU too")
    parser.add_argument("--only", choices=list(BUDGETS_S), action="append", help="one part; may be repeated")
    parser.add_argument("--carry", type=Path, help="write here what another machine lacks; with --rehearse, use it")
    parser.add_argument("--python", default=HERE, help="the other machine's version of Python (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.out is None and (args.rehearse or args.carry is None):
        parser.error("--out is needed")
    if args.carry is not None:
        return _carry(args)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"missing: {', '.join(missing)}. On a machine with a package index: python -m tests.lab.gpu --carry DIR "
            f"--python {HERE}; then bring the files of DIR here.\n"
        )
        return 2
    if not args.rehearse and not (gpus := cuda_gpus()).found:
        sys.stderr.write(f"there is no GPU that torch can use ({gpus.why_none or 'no driver'}); try --rehearse.\n")
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="permafrost-gpu-") as work:
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        if args.rehearse:
            os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait for each other make tiny products slow
        parts = run_all(args.out.resolve(), Path(work), args.only or list(BUDGETS_S), rehearse=args.rehearse)
    sys.stdout.write(f"{table(parts)}\n")
    return exit_code(parts)


def exit_code(parts: Mapping[str, Mapping[str, Any]]) -> int:
    """0 if every part was done and every claim but goals holds; what was skipped or cut has not been shown."""
    broken = (not check["holds"] and not check["is_goal"] for part in parts.values() for check in part["checks"])
    return int(any(part["status"] != "done" for part in parts.values()) or any(broken))


def _carry(args: argparse.Namespace) -> int:
    """Write what another machine needs, or rehearse with it."""
    if not args.rehearse:
        sys.stdout.write(how_to_run(write_carry(args.carry, python=args.python)))
        return 0
    from tests.lab.gpu.bare_machine import rehearse_bare  # with what only a machine that packs has

    if pieces_in(args.carry, SITE):
        if (there := (args.carry / PYTHON).read_text(encoding="utf-8").strip()) != HERE:
            sys.stderr.write(f"{args.carry} is for Python {there}, and this is {HERE}: rehearse with another DIR.\n")
            return 2
        write_project(args.carry)
    else:
        write_carry(args.carry)
    args.out.mkdir(parents=True, exist_ok=True)
    only = [word for part in args.only or () for word in ("--only", part)]
    with tempfile.TemporaryDirectory(prefix="permafrost-bare-") as work:
        return rehearse_bare(args.carry, Path(work), [*only, "--out", str(args.out.resolve())])


if __name__ == "__main__":
    sys.exit(main())
