"""Drivers that share a sweep through a bucket, under seeded harm, each run compared with an undisturbed one.

python -m tests.lab.chaos.drivers --runs 50 --seed 0 --drivers 5 --out drivers.jsonl
python -m tests.lab.chaos.drivers --runs 10 --cluster local
python -m tests.lab.chaos.drivers --runs 10 --schedule

Each driver is a `permafrost launch` in a network of its own and on a small disk of its own. With `--cluster local` each
has a Ray that runs one trial at a time and lies on another disk; as two cores carry few of these, three drivers share 8
trials, where inline five share 20. With `--schedule` they share a search by ASHA, in which a trial pauses and perhaps
goes on with another driver: seven settings with three seeds each, of which the best goes on when all have paused, and
its decisions compared, too. The S3,
a moto server, is in another network, and each driver's way there is a proxy that delays answers, loses some, refuses,
and can be cut: then what is under way arrives when it is joined again. Without the right to make networks and mount
disks all share loopback. A line of JSON a run; exit code 0 if each kept what is promised.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from orchestrator.extras.store_care.check import check_store
from orchestrator.store import ResultStore, open_store
from tests.lab.chaos import compare
from tests.lab.chaos.cluster import base_environment, namespaces_allowed, small_disk
from tests.lab.chaos.endure import STUCK_AFTER_CLOCK_S, Moment, Told, as_json, is_ok, plan, say, summary
from tests.lab.chaos.events import Ongoing, filled, no_more_bytes
from tests.lab.chaos.processes import end_all, leave_on_sigterm, send
from tests.lab.chaos.subject import Verdict, write_work
from tests.lab.chaos.wall_clock import WallClock, compiler
from tests.lab.chaos.warm_launch import TIMING
from tests.lab.deploy.networks import Bridge
from tests.s3_faults import Faults
from tests.s3_objects import BUCKET
from tests.s3_server import ENVIRONMENT
from tests.server_programs import free_port, server_program, wait_for

N_DRIVERS, N_TRIALS, N_EPOCHS = {"inline": 5, "local": 3}, {"inline": 20, "local": 8}, 4
DISK_MB, PAUSE_S = 32, 1.5
RUN_S = {"inline": 120.0, "local": 120.0 + STUCK_AFTER_CLOCK_S}  # Ray's processes take timers from the wall clock
_POLL_S = 0.02
_CLAIM = re.compile(r"claims/(\w+)-(\d+)\.json")


class History:
    """What the store was told, in the order in which it was: also the rows of parts that were compacted since.

    One write at a time, as moto looks for an object and then creates it, and two writes may do so at once.

    Attributes:
        folder: All parts, by table.
        finished: The trials with a completed attempt.
        ended: These, and trials that a schedule paused.
        ran_again: Trials and attempts that were claimed when the trial was finished, and evaluated since then.
        late: Evaluations, by trial, attempt and step, of a driver that was slower to write them than another to take
            its trial over.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.finished: set[str] = set()
        self.ended: set[str] = set()
        self.ran_again: set[tuple[str, int]] = set()
        self.late: set[tuple[str, int, int]] = set()
        self._newest: dict[str, int] = {}
        self._claimed_again: set[tuple[str, int]] = set()
        self._evaluations: set[tuple[str, int, int]] = set()
        self._lock = threading.Lock()

    def carry(self, request: bytes, hand_on: Callable[[bytes], bytes]) -> bytes:
        """Hand a request on, and note what it wrote."""
        if not request.startswith(b"PUT "):
            return hand_on(request)
        with self._lock:
            answer = hand_on(request)
            head, _, body = request.partition(b"\r\n\r\n")
            if answer.split(maxsplit=2)[1] == b"200":
                self.note("/".join(head.split()[1].decode().split("?")[0].split("/")[-2:]), body)
            return answer

    def note(self, name: str, content: bytes) -> None:
        """An object was written."""
        if found := _CLAIM.fullmatch(name):
            self._newest[found[1]] = max(int(found[2]), self._newest.get(found[1], 0))
            if found[1] in self.finished:
                self._claimed_again.add((found[1], int(found[2])))
        elif name.endswith(".parquet"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
            if name.startswith("trials/"):
                rows = pq.read_table(BytesIO(content), columns=["trial_id", "state"]).to_pylist()
                self.finished |= {row["trial_id"] for row in rows if row["state"] == "completed"}
                self.ended |= {row["trial_id"] for row in rows if row["state"] in ("completed", "pruned")}
            if name.startswith("epochs/"):
                rows = pq.read_table(BytesIO(content), columns=["trial_id", "attempt", "step"]).to_pylist()
                new = {(row["trial_id"], row["attempt"], row["step"]) for row in rows} - self._evaluations
                self._evaluations |= new
                self.late |= {
                    (trial, attempt, step) for trial, attempt, step in new if attempt < self._newest.get(trial, 0)
                }
                self.ran_again |= {evaluation[:2] for evaluation in new} & self._claimed_again

    def ended_twice(self) -> int:
        """Trials with two completed attempts: a driver stood still, or its rows were under way, at its last commit."""
        rows = compare.raw_rows(self.folder, "trials", ["trial_id", "attempt", "state"])
        ended = {(row["trial_id"], row["attempt"]) for row in rows if row["state"] == "completed"}
        return sum(n > 1 for n in Counter(trial_id for trial_id, _ in ended).values())


class Link(Faults):
    """A driver's way to the store.

    Attributes:
        history: Of the present run.
        joined: Nothing passes while it is not set.
    """

    def __init__(self, target: str, *, seed: str, host: str) -> None:
        super().__init__(target, seed=seed, host=host)
        self.error_share, self.slow_share, self.slow_s = 0.01, 0.05, 0.2
        self.history = History(Path())
        self.joined = threading.Event()
        self.joined.set()

    def handed_on(self, request: bytes) -> bytes:
        history = self.history
        self.joined.wait()
        answer = history.carry(request, super().handed_on)
        self.joined.wait()
        return answer


class Driver:
    """Where one driver at a time runs.

    Attributes:
        pid: Of the driver; 0 if none runs.
        lines: What was said last.
    """

    def __init__(self, folder: Path, prefix: Sequence[str], link: Link, cluster: str, *, own_disk: bool) -> None:
        self.folder, self.link, self.cluster, self.own_disk = folder, link, cluster, own_disk
        self.disk = folder / "disk"
        self.clock = WallClock(folder) if compiler() else None
        self.pid = 0
        self.lines: deque[str] = deque(maxlen=4)
        environment = base_environment(folder) | ENVIRONMENT | (self.clock.environment() if self.clock else {})
        environment |= {"TMPDIR": str(self.disk), "PERMAFROST_CACHE": str(self.disk / "cache"), "OMP_NUM_THREADS": "1"}
        self._launcher = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.lab.chaos.warm_launch"], cwd=folder, env=environment, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._launcher.stderr
        for line in self._launcher.stderr:
            if line.strip():
                self.lines.append(line.decode(errors="replace").rstrip()[:400])

    def launch(self, sweep: Path, store: str) -> None:
        """Start a driver."""
        assert self._launcher.stdin
        address = f"s3://{BUCKET}/{store}?endpoint_override={self.link.url}"
        words = ["--sweep", str(sweep), "--store", address, "--cluster", self.cluster, "--offline", "--json"]
        words += ["--set", f"resources.cpus={os.cpu_count()}"] if self.cluster == "local" else []
        words += ["--set", "trial.frozen_dropout=true"]  # no cached states: without room for them the last bits differ
        self._launcher.stdin.write(f"{json.dumps(words)}\n".encode())
        self.pid = self._told()

    def poll(self) -> int | None:
        """The exit code of a driver that has ended."""
        assert self._launcher.stdout
        if not self.pid or not select.select([self._launcher.stdout], [], [], 0)[0]:
            return None
        self.pid = 0
        return self._told()

    def _told(self) -> int:
        assert self._launcher.stdout
        return int(self._launcher.stdout.readline() or -1)  # nothing if SIGTERM ended that, too

    def end(self) -> None:
        """Kill the driver."""
        if self.pid:
            send(self.pid, signal.SIGKILL)
            self._told()
            self.pid = 0

    def close(self) -> None:
        """End all that was started."""
        end_all(self.folder)
        self._launcher.communicate()


Harm = Callable[[Driver, Sequence[Driver], Random], Ongoing | None]


def _killed(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    return Ongoing("SIGKILL") if send(driver.pid, signal.SIGKILL) else None


def _stopped(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    pid = driver.pid
    is_sent = send(pid, signal.SIGSTOP)
    return Ongoing("SIGSTOP", _long(rng), lambda: send(pid, signal.SIGCONT)) if is_sent else None


def _cut_off(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    driver.link.joined.clear()
    return Ongoing("cut off", _long(rng), driver.link.joined.set)


def _answers_lost(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    driver.link.lost_answers, driver.link.cut_gets = rng.randint(1, 6), 2
    return Ongoing("answers lost")


def _refused(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    def answer(status: int | None) -> None:
        for each in drivers:
            each.link.status = status

    answer(503)
    return Ongoing("all are answered 503", 1.0, lambda: answer(None))


def _clock_jumped(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    clock, seconds = driver.clock, rng.choice([-3600, 3600])
    if clock is None:
        return None
    clock.move(seconds)
    return Ongoing(f"wall clock {seconds:+} s", _long(rng), lambda: clock.move(0))


def _own_disk_full(driver: Driver, drivers: Sequence[Driver], rng: Random) -> Ongoing | None:
    if driver.own_disk:
        return Ongoing("own disk full", _long(rng), filled(driver.disk).unlink)
    with contextlib.suppress(ProcessLookupError):
        return Ongoing("may write to no file", _long(rng), no_more_bytes(driver.pid))
    return None


def _long(rng: Random) -> float:
    """Longer than the patience of other drivers, as a rule."""
    return TIMING.stale_s * rng.uniform(0.9, 2.0)


HARMS: dict[str, Harm] = {
    "killed": _killed, "stopped": _stopped, "cut_off": _cut_off, "answers_lost": _answers_lost, "refused": _refused,
    "clock_jumped": _clock_jumped, "own_disk_full": _own_disk_full,
}  # fmt: skip


class Run:
    """One sweep, launched by all drivers; a driver that does not end well is launched again."""

    def __init__(
        self, drivers: Sequence[Driver], sweep: Path, store: str, history: History, moments: Sequence[Moment], seed: str
    ) -> None:
        self._drivers, self._sweep, self._store, self._history = drivers, sweep, store, history
        self._moments, self._seed, self._rng = list(moments), seed, Random(seed)
        self._reached: float | None = None  # since when there have been as many trials as the next moment waits for
        self._ongoing: list[tuple[float, Ongoing]] = []
        self.told = Told()

    def go(self) -> Told:
        """To the end, or until it is clear that there will be none."""
        started = time.monotonic()
        for driver in self._drivers:
            driver.link.history = self._history
            shutil.rmtree(driver.disk / "cache", ignore_errors=True)
        due = {driver: started + self._rng.uniform(0, PAUSE_S) for driver in self._drivers}
        try:
            while due or any(driver.pid for driver in self._drivers):
                time.sleep(_POLL_S)
                self._look(due)
                if time.monotonic() - started > RUN_S[self._drivers[0].cluster]:
                    self.told.gave_up = True
                    break
        finally:
            self._undo(float("inf"))
            for driver in self._drivers:
                driver.end()
        self.told.not_done = [moment.harm for moment in self._moments]
        self.told.seconds = round(time.monotonic() - started, 1)
        self.told.log_tail = [f"{driver.folder.name}: {line}" for driver in self._drivers for line in driver.lines]
        return self.told

    def _look(self, due: dict[Driver, float]) -> None:
        now = time.monotonic()
        for driver in self._drivers:
            if due.get(driver, float("inf")) <= now:
                del due[driver]
                driver.launch(self._sweep, self._store)
            elif (code := driver.poll()) is not None:
                self.told.exit_codes.append(code)
                if code:
                    due[driver] = now + self._rng.uniform(0, PAUSE_S)
        self._undo(now)
        if self._moments and len(self._history.ended) >= self._moments[0].rows:
            self._reached = self._reached or now
            if now - self._reached >= self._moments[0].delay_s:
                self._harm(self._moments[0].harm, now)

    def _harm(self, harm: str, now: float) -> None:
        running, rng = [driver for driver in self._drivers if driver.pid], Random(f"{self._seed} {harm}")
        driver = rng.choice(running) if running else None
        if driver and (ongoing := HARMS[harm](driver, self._drivers, rng)):
            self.told.harms.append(f"{harm}: {driver.folder.name} {ongoing.what} for {ongoing.seconds:.1f} s")
            self._ongoing.append((now + ongoing.seconds, ongoing))
            self._moments.pop(0)
            self._reached = None

    def _undo(self, now: float) -> None:
        for until, ongoing in [each for each in self._ongoing if each[0] <= now]:
            ongoing.undo()
            self._ongoing.remove((until, ongoing))


class Fleet:
    """Drivers and their S3."""

    def __init__(self, drivers: Sequence[Driver], url: str, sweep: Path, folder: Path) -> None:
        self._drivers, self._url, self._sweep, self._folder = drivers, url, sweep, folder
        self.expected: compare.Tables = {}
        self._decisions: set[object] = set()

    def undisturbed(self) -> None:
        """Note the tables of the sweep when one driver runs it and nothing happens."""
        history = History(self._folder / "undisturbed")
        told = Run(self._drivers[:1], self._sweep, "undisturbed", history, [], "").go()
        assert told.exit_codes == [0], told.log_tail
        store = open_store(self._address("undisturbed"))
        self.expected, self._decisions = compare.tables(compare.read_rows(store)), _decided(store)

    def run(self, moments: Sequence[Moment], seed: str) -> tuple[Told, int]:
        """A run and its verdict; and how many trials ended twice, the second attempt begun before the first end."""
        store = seed.replace(" ", "-")
        history = History(self._folder / store)
        told = Run(self._drivers, self._sweep, store, history, moments, seed).go()
        address = self._address(store)
        told.verdict = Verdict(
            finished_again=len(history.ran_again),
            lost_intervals=compare.lost_intervals(history.folder, late=history.late),
        )
        told.verdict.unsound += [str(finding) for finding in check_store(address).findings]
        told.verdict.note(compare.compare(self.expected, compare.read_rows(open_store(address))))
        if (decided := _decided(open_store(address))) != self._decisions:
            told.verdict.unsound.append(f"decided {decided ^ self._decisions} otherwise")
        return told, history.ended_twice()

    def _address(self, store: str) -> str:
        return f"s3://{BUCKET}/{store}?endpoint_override={self._url}"


def _decided(store: ResultStore) -> set[object]:
    """What the search of the only sweep decided."""
    return {one.choice for sweep in store.sweeps() for one in store.decisions(sweep.name)}


@contextlib.contextmanager
def fleet(
    folder: Path,
    n: int,
    url: str,
    host: str = "127.0.0.1",
    prefixes: Sequence[Sequence[str]] = (),
    cluster: str = "inline",
    *,
    scheduled: bool = False,
) -> Iterator[Fleet]:
    """Drivers with links from a host's address to the S3 at a URL; each prefix enters a driver's network."""
    freeze, seeds = "{strategy: all_encoder, embeddings: true}", N_TRIALS[cluster]
    if scheduled:
        freeze, seeds = ", ".join(f"{{strategy: first_k, depth: {k}, embeddings: true}}" for k in range(7)), 3
    sweep = write_work(folder, train=40, epochs=N_EPOCHS, seeds=seeds, freeze=freeze)
    if scheduled:
        sweep.write_text(f"{sweep.read_text()}\nschedule: {{kind: asha, factor: 8}}\n")
    with contextlib.ExitStack() as stack:
        drivers = []
        for number in range(n):
            place = folder / f"driver{number}"
            own_disk = stack.enter_context(small_disk(place / "disk", DISK_MB))
            link = stack.enter_context(Link(url, seed=str(number), host=host))
            drivers.append(Driver(place, prefixes[number] if prefixes else (), link, cluster, own_disk=own_disk))
            stack.callback(drivers[-1].close)
        yield Fleet(drivers, url, sweep, folder)


@contextlib.contextmanager
def networks(folder: Path, n: int) -> Iterator[tuple[str, list[list[str]]]]:
    """An address in a network that this thread is in from now on, and what enters each of `n` others."""
    if not namespaces_allowed():
        yield "127.0.0.1", [[] for _ in range(n)]
        return
    with Bridge(folder) as bridge:
        space, address = bridge.attach()
        others = [bridge.attach()[0] for _ in range(n)]
        with Path("/var/run/netns", space).open("rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns")
        yield address, [["ip", "netns", "exec", other] for other in others]


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """The address of moto's S3, with a bucket."""
    os.environ.setdefault("PERMAFROST_REQUIRE_SERVERS", "1")
    words, port = [server_program("moto_server"), "-H", "127.0.0.1"], free_port()
    with subprocess.Popen([*words, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port, process)
            url = f"http://127.0.0.1:{port}"
            urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
            yield url
        finally:
            process.kill()


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to see one again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drivers", type=int, help="5, or 3 with a Ray each")
    parser.add_argument("--cluster", choices=tuple(RUN_S), default="inline")
    parser.add_argument("--schedule", action="store_true", help="share a search by ASHA")
    parser.add_argument("--out", type=Path, help="a file for the lines, and the summary as its last one")
    args = parser.parse_args(argv)
    n_drivers = args.drivers or N_DRIVERS[args.cluster]
    leave_on_sigterm()
    os.environ |= ENVIRONMENT
    found: list[tuple[Told, bool]] = []
    with (
        tempfile.TemporaryDirectory(prefix="drivers-", ignore_cleanup_errors=True) as name,
        networks(Path(name), n_drivers) as (host, prefixes),
        moto() as url,
        fleet(Path(name), n_drivers, url, host, prefixes, args.cluster, scheduled=args.schedule) as drivers,
    ):
        drivers.undisturbed()
        for number in range(args.first, args.first + args.runs):
            seed = f"{args.seed} {number}"
            moments = plan(Random(seed), list(HARMS), most=4, n_rows=N_TRIALS[args.cluster] - 4)
            told, twice = drivers.run(moments, seed)
            found.append((told, is_ok(told)))
            planned = [f"{m.harm} at trial {m.rows} + {m.delay_s} s" for m in moments]
            say(args.out, {"run": number, "planned": planned, "ended_twice": twice, **as_json(told, ok=is_ok(told))})
    say(args.out, {"summary": summary(found)})
    return int(not all(ok for _, ok in found))


if __name__ == "__main__":
    raise SystemExit(main())
