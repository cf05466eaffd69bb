"""Answers as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from orchestrator.analysis.answer_text import curve_lines, lines_of, notes_of
from orchestrator.config.console import stdout

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer


def show_answers(answers: Sequence[Answer], console: Console = stdout, *, full: bool = False) -> None:
    """Print the answers, two lines each, below them the curve and what each tolerance buys; `full`: then all else."""
    for entry in answers:
        first, second = lines_of(entry)
        console.print(f"\n{entry.heading}", style="bold")
        console.print(Padding(Text(first, style="bold green" if entry.decided else "bold"), (0, 0, 0, 2)))
        console.print(Padding(Text(second), (0, 0, 0, 2)))
        if curve := curve_lines(entry, console.width - 2):
            console.print(Padding(Text("\n".join(curve), no_wrap=True, overflow="ignore"), (1, 0, 0, 2)))
        if full and (notes := notes_of(entry)):
            console.print(Padding(Text("\n".join(notes)), (1, 0, 0, 2)))
        if full and entry.own_training:
            console.print(f"\n  in your own training code:\n\n{entry.own_training.rstrip()}", soft_wrap=True)
