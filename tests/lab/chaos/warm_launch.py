"""Launches one after the other, each a fork of this process, so that none takes seconds to import what it needs.

python -m tests.lab.chaos.warm_launch       (each line of input is a JSON array, the words of a `permafrost launch`)

It prints the pid of each launch and, after its end, its exit code. What a launch says goes to stderr. A driver counts
as ended after 4 seconds without a heartbeat, not after a minute.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from importlib import import_module

from orchestrator.claims import Timing, join
from orchestrator.commands.app import run
from orchestrator.execution.provenance import git_commit, versions

TIMING = Timing(beat_s=1.0, stale_s=4.0, poll_s=0.5)
_IMPORTED_LATER = (
    "boto3", "conllu", "obstore", "orchestrator.analysis.answer", "orchestrator.commands.launch_command",
    "orchestrator.backends.inline",
    "orchestrator.forecast.pilot", "orchestrator.forecast.forecast", "pandas", "trials.run",
    "transformers.models.distilbert.modeling_distilbert",
)  # fmt: skip


def main() -> None:
    """Launch until the input ends."""
    for name in _IMPORTED_LATER:
        import_module(name)
    git_commit()  # remembered
    versions()
    inspect.unwrap(join).__kwdefaults__["timing"] = TIMING
    for line in sys.stdin:
        if not (pid := os.fork()):
            os.dup2(2, 1)
            sys.argv = ["launch", *json.loads(line)]
            run("launch")
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
