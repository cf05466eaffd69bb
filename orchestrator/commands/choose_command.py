"""Choose a freeze for your own data, or only write the sweep file that would find it.

permafrost choose my-treebank --model distilbert-base-multilingual-cased
permafrost choose reviews.csv --model distilbert/distilbert-base-cased@REVISION --tolerance 0.5 --max-hours 4
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

import typer

from orchestrator.api.choosing import Choice
from orchestrator.api.choosing import choose as choose_for
from orchestrator.commands.shown_answers import show_answers
from orchestrator.config import options
from orchestrator.config.console import download_progress, errors_as_exit_codes, say, sibling_command, stderr, stdout
from orchestrator.own_data.choose_options import DATA, Ask, ChooseOptions, with_options
from orchestrator.own_data.question import write_question
from trials.draft import Lookup


@with_options(
    "data", *DATA, "held_out", "folds", "model", "tolerance", "rates", "max_hours", "store", "out", "cluster", "export",
    "dry_run", "yes", "offline", "cpus", "gpus",
)  # fmt: skip
def choose(asked: ChooseOptions, as_json: options.Json = False) -> None:
    """Find out how deep to freeze on your data: plan, run and answer in one command. Run it again to resume.

    Examples:
        permafrost choose my-corpus --model distilbert-base-multilingual-cased

        permafrost choose UD_English-EWT

        permafrost choose reviews.csv --text review --label stars --tolerance 0.5

    Exit codes: 0 done or out of time, 1 trials failed, 2 invalid option, 3 broken file, 4 file exists, 130/143 stopped.
    """
    with errors_as_exit_codes():
        asked = replace(asked, ask=None if asked.yes else _ask())
        choice = choose_for(asked)
        if as_json:
            print(json.dumps(_as_json(choice)))
        elif choice.forecast is not None and asked.dry_run:
            for part in choice.forecast.parts():
                stdout.print(part)
        elif choice.answers:
            show_answers(choice.answers)
        _say_next(choice, asked)
    raise typer.Exit(choice.exit_code)


@with_options("data", *DATA, "held_out", "folds", "model", "tolerance", "out", "offline")
def init(asked: ChooseOptions) -> None:
    """Write the sweep file that `permafrost choose` would run, with comments, to be edited.

    Examples:
        permafrost init my-treebank --model xlm-roberta-base

        permafrost init reviews.csv --text review --label stars --out sweeps

    Exit codes: 0 written, 2 invalid option, 3 missing or broken file, 4 the sweep file exists.
    """
    with errors_as_exit_codes():
        with download_progress(stderr):
            path = write_question(replace(asked, ask=_ask()), Lookup(offline=asked.offline), say)
        stdout.print_line(f"sweep   {path}")
        say(f"next    {sibling_command('launch', '--sweep', str(path))}")


def _ask() -> Ask | None:
    """A function that asks on the terminal until one of the choices is typed; None if there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str, choices: Sequence[str]) -> str:
        while (word := str(typer.prompt(f"{question} ({', '.join(choices)})", err=True))) not in choices:
            say(f"{word!r} is none of them")
        return word

    return ask


def _as_json(choice: Choice) -> dict[str, object]:
    return {
        "answers": [answer.as_json() for answer in choice.answers],
        "sweep_file": str(choice.sweep_file),
        "next": [step._asdict() for step in choice.next],
        "model": None if choice.model is None else str(choice.model),
        "outcome": None if choice.outcome is None else asdict(choice.outcome),
    }


def _say_next(choice: Choice, asked: ChooseOptions) -> None:
    if asked.dry_run:
        say(f"next    the same command without --dry-run, or edit {choice.sweep_file} and launch it")
        return
    if choice.model is not None:
        say(f"model   {choice.model}")
    for step in choice.next:
        _, name, *arguments = shlex.split(step.command)
        say(f"next    {step.brings}:\n        {sibling_command(name, *arguments)}")
    if choice.stopped is not None:
        say(f"resume  {choice.stopped} The same command resumes")
    say(f"look    {sibling_command('dashboard', asked.store)}")
