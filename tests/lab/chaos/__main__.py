"""Sweeps on a real cluster under seeded harm, each compared with the uninterrupted one; a JSON line a run.

python -m tests.lab.chaos --runs 50 --seed 0 --out chaos.jsonl
python -m tests.lab.chaos --runs 2 --harms gcs_killed,byte_flipped --keep
python -m tests.lab.chaos --runs 5 --harms machine_killed       # all processes of all nodes at once
python -m tests.lab.chaos --runs 25 --harms driver_killed --cluster inline

A run takes half a minute to a minute and a half on two cores. Exit code 0 if every run of
ours kept what is promised.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from orchestrator.store import open_store
from tests.lab.chaos.cluster import Cluster, Inline, Local, Nodes, namespaces_allowed, small_disk
from tests.lab.chaos.compare import Tables, read_rows, tables
from tests.lab.chaos.endure import Endurance, Moment, Told, as_json, is_ok, plan, say, summary
from tests.lab.chaos.events import HARMS, WHOLE, World, can_be_done
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.processes import leave_on_sigterm
from tests.lab.chaos.subject import write_work
from tests.lab.chaos.wall_clock import WallClock, compiler

CLUSTERS: dict[str, type[Cluster]] = {"auto": Nodes, "local": Local, "inline": Inline}
_DISK_MB = 400


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to see one again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file for the lines, and the summary as its last one")
    parser.add_argument(
        "--cluster", choices=CLUSTERS, default="auto", help="three nodes, what a launch starts, or no Ray"
    )
    parser.add_argument(
        "--harms", help=f"all of these in each run, instead of some of: {', '.join(HARMS)}; also {', '.join(WHOLE)}"
    )
    parser.add_argument("--keep", action="store_true", help="leave the folders of the runs")
    args = parser.parse_args(argv)
    leave_on_sigterm()
    base = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        return _all(args, base)
    finally:
        if args.keep:
            sys.stderr.write(f"kept {base}\n")
        else:
            shutil.rmtree(base, ignore_errors=True)


def _all(args: argparse.Namespace, base: Path) -> int:
    cluster, sweep = CLUSTERS[args.cluster], write_work(base)
    possible = [name for name in HARMS if can_be_done(name, cluster, clock=compiler() is not None)]
    say(args.out, {"machine": {"networks": namespaces_allowed(), "left_out": sorted(set(HARMS) - set(possible))}})
    expected = uninterrupted(cluster, sweep, base)
    found: list[tuple[Told, bool]] = []
    for number in range(args.first, args.first + args.runs):
        rng = Random(f"{args.seed} {number}")
        moments = plan(rng, possible)
        if args.harms:
            moments = [Moment(harm, m.rows, m.delay_s) for harm, m in _spread(args.harms.split(","), rng)]
        folder = base / f"o{number}"  # short: the paths of Ray's sockets are limited to 107 bytes
        told = _tried(cluster, sweep, expected, folder, moments, rng)
        found.append((told, is_ok(told)))
        planned = [f"{m.harm} at row {m.rows} + {m.delay_s} s" for m in moments]
        say(args.out, {"run": number, "planned": planned, **as_json(told, ok=is_ok(told))})
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    say(args.out, {"summary": summary(found)})
    return 0 if all(ok for _, ok in found) else 1


def _tried(
    cluster: type[Cluster], sweep: Path, expected: Tables, folder: Path, moments: list[Moment], rng: Random
) -> Told:
    try:
        return run_once(cluster, sweep, expected, folder, moments, rng)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return Told(broke=f"{type(error).__name__}: {error}")


def _spread(harms: list[str], rng: Random) -> list[tuple[str, Moment]]:
    """The wanted harms at moments of their own."""
    moments = sorted((plan(rng, [harm])[0] for harm in harms), key=lambda moment: moment.rows)
    return list(zip(harms, moments, strict=True))


def uninterrupted(cluster: type[Cluster], sweep: Path, base: Path) -> Tables:
    """The tables of the sweep when nothing happens."""
    kept: list[Tables] = []
    told = run_once(cluster, sweep, None, base / "u", [], Random(0), kept)
    assert told.exit_codes == [0], told.log_tail
    return kept[0]


def run_once(
    cluster: type[Cluster],
    sweep: Path,
    expected: Tables | None,
    folder: Path,
    moments: Sequence[Moment],
    rng: Random,
    keep: list[Tables] | None = None,
) -> Told:
    """One sweep in a folder, on a disk and a cluster of its own; `keep` takes its tables."""
    disk = folder / "disk"
    with small_disk(disk, _DISK_MB) as own_disk:
        moved = any(moment.harm == "clock_jumped" for moment in moments)
        clock = WallClock(folder) if moved else None
        with cluster(folder, clock.environment() if clock else None) as nodes:
            subject = Ours(sweep, folder, disk, expected)
            told = Endurance(World(folder, disk, own_disk, nodes, subject, rng, clock), moments).go()
            if keep is not None:
                keep.append(tables(read_rows(open_store(disk / "store"))))
            return told


if __name__ == "__main__":
    raise SystemExit(main())
