"""What a launch prints when it ends: results, what failed, why it stopped, and what to run next."""

from __future__ import annotations

from orchestrator.api.launching import Launched
from orchestrator.commands.shown_answers import show_answers
from orchestrator.config.console import say, sibling_command, stderr, stdout, typed_command
from orchestrator.config.quantities import counted
from orchestrator.session.outcome import failures
from orchestrator.session.session import Ended
from orchestrator.session.tables import failure_table
from orchestrator.store import ResultStore


def show_done(done: Launched) -> None:
    """Print the table of the sweep, what a search found, and the answers."""
    table = done.table
    for part in table.parts():
        stdout.print(part)
    for note in table.notes:
        say(f"note    {note}")
    for line in done.found:
        stdout.print_line(line)
    if not done.found:  # a search ends with its own
        show_answers(done.answers())


def say_end(ended: Ended, results: ResultStore) -> None:
    """Print which trials failed, why the launch stopped early if it did, and how to resume."""
    if ended.outcome.failed:
        say(f"{counted(ended.outcome.failed, 'trial')} failed; run the same command to retry:")
        stderr.print(failure_table(failures(ended.plan, results)))
    if ended.stopped:
        say(ended.stopped if ended.stop.reason is not None else f"{ended.stopped} Resume with:\n  {typed_command()}")
    store = ended.outcome.store
    say(f"results {store}; show them again with: {sibling_command('status', '--store', store)}")
    say(f"next    {sibling_command('dashboard', store)}")
    say(f"        {sibling_command('answer', '--full', '--store', store)}")
