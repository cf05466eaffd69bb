"""What can go wrong through no fault of ours, each with the exit code that the command line answers with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_LINE = 2_000  # characters of one mistake in a message


class PermafrostError(Exception):
    """Base of every error a user can cause. `exit_code` is public: see the README's table.

    Its message is a line for each mistake, and fit for a terminal: what a file or a server supplied ends no line and
    sends no control sequence.
    """

    exit_code = 70

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(map(one_line, mistakes)))


class ConfigError(PermafrostError):
    """A sweep, trial or option that says something it may not; `problems` holds all of them.

    `exit_code` is 2, or 3 where all that is wrong is a file that is absent or broken.
    """

    def __init__(self, problems: str | Iterable[str], *, exit_code: int = 2) -> None:
        lines = problems.split("\n") if isinstance(problems, str) else problems
        self.problems = tuple(map(one_line, lines))
        self.exit_code = exit_code
        super().__init__(*self.problems)


class DataError(PermafrostError):
    """A corpus that is absent, broken, or not the one that was planned."""

    exit_code = 3


class ModelError(PermafrostError):
    """A model folder that is absent, broken, or of a family nobody registered."""

    exit_code = 3


class StoreError(PermafrostError):
    """A results store that cannot be read, is not ours, or comes from a newer version."""

    exit_code = 3


class DivergedError(PermafrostError):
    """The training loss is no longer a number; what was learnt until then is kept."""


class CheckpointError(PermafrostError):
    """A checkpoint that does not fit its trial."""


class PreemptedError(PermafrostError):
    """The process was asked to go; the trial is kept and goes on elsewhere."""


def one_line(text: str) -> str:
    """The text on one line, not too long, each character that cannot be shown as its escape."""
    if not text.isprintable():
        lines = [line.strip() for line in text.splitlines()]
        text = " ".join(line for line in lines if line)
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE // 2]} [...] {text[-LONGEST_LINE // 3 :]}"


def unknown(name: str, known: Iterable[str]) -> str:
    """`unknown 'frist_k', did you mean 'first_k'? Known: ...`, the one wording for a word nobody registered."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    return f"unknown {name!r:.200}{hint} Known: {', '.join(names)}."


class MissingError(PermafrostError):
    """Something that this machine or installation does not have."""

    exit_code = 3


class NothingMatchedError(PermafrostError):
    """What was asked for matches nothing that there is."""

    exit_code = 5


class RefusedError(PermafrostError):
    """Something that was asked for and is not done, because it would not be safe."""

    exit_code = 4
