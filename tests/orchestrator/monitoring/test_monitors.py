"""The watchers of a launch together: what they make of each way in which it can end."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from orchestrator.execution.events import Listeners
from orchestrator.execution.stop_request import StopRequest
from orchestrator.session.monitors import Watch
from orchestrator.storage.storage import FolderStorage
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from orchestrator.sweeps.watch_spec import WatchSpec
from tests.builders import first_attempts, make_spec
from tests.examples import each
from tests.small_sweeps import POS, launched, write_bank
from trials.state import State

SPECS = tuple(make_spec(seed=seed) for seed in range(2))
PLAN = Plan(SweepSpec(name="tiny"), "tiny.yaml", SPECS, SPECS, first_attempts(SPECS))


class GoneError(Exception):
    """Breaks a launch."""


def ended(folder: Path, n: int, state: State, raised: BaseException | None = None, **asked: Any) -> dict[str, Any]:
    """The last line of the log of a launch in which so many of two trials ended in a state."""
    stop, settings = StopRequest(), WatchSpec(log=str(folder / "log.jsonl"))
    stop.signal, stop.reason, stop.asker = (asked.get(key) for key in ("signal", "reason", "asker"))
    try:
        with Watch(PLAN, FolderStorage(folder), settings, cluster="inline", stop=stop, say=print) as watch:
            listener = Listeners(*watch.listeners)
            for spec in SPECS[:n]:
                listener.started(spec, 1)
                listener.ended(spec, state, None)
            if raised is not None:
                raise raised
    except (GoneError, KeyboardInterrupt, SystemExit):
        assert raised is not None
    last: dict[str, Any] = json.loads((folder / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    return last


@each(
    "n, state, raised, asked, event",
    [
        (2, State.COMPLETED, None, {}, "done"),
        (2, State.PRUNED, None, {"signal": signal.SIGTERM}, "done"),
        (2, State.DIVERGED, None, {}, "failed"),
        (1, State.COMPLETED, None, {"reason": "all alike"}, "failed"),
        (1, State.COMPLETED, None, {"signal": signal.SIGTERM}, "failed"),
        (1, State.COMPLETED, KeyboardInterrupt(), {"signal": signal.SIGTERM}, "failed"),
        (1, State.COMPLETED, SystemExit(signal.SIGTERM), {}, "failed"),
        (1, State.COMPLETED, None, {"signal": signal.SIGINT}, "interrupted"),
        (1, State.COMPLETED, KeyboardInterrupt(), {}, "interrupted"),
        (1, State.COMPLETED, None, {"asker": "me on a laptop"}, "interrupted"),
        (2, State.COMPLETED, None, {"asker": "me on a laptop"}, "done"),
        (1, State.COMPLETED, GoneError("//me:pw@host"), {}, "failed"),
    ],
)
def test_a_launch_ends_done_failed_or_interrupted(
    n: int, state: State, raised: BaseException | None, asked: dict[str, Any], event: str, tmp_path: Path
) -> None:
    assert ended(tmp_path, n, state, raised, **asked)["event"] == event


def test_a_launch_that_breaks_says_by_what_without_secrets(tmp_path: Path) -> None:
    last = ended(tmp_path, 1, State.COMPLETED, GoneError("no answer\nfrom //me:pw@host"))
    assert (last["error"], last["left"]) == ("GoneError: from //***@host", 1)


def test_a_sweep_without_ray_is_logged_too(tmp_path: Path) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    launched(tmp_path, f"{POS}\nwatch: {{log: {tmp_path}/log.jsonl}}\n")
    told = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    events = Counter(entry["event"] for entry in told)
    assert events == {"launched": 1, "started": 2, "evaluated": 4, "ended": 2, "done": 1}
    assert told[-1]["trials"] == {"completed": 2}
    assert len({entry["trial_id"] for entry in told if "trial_id" in entry}) == 2
