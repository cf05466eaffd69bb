"""What can go wrong through no fault of ours, each with the exit code that the command line answers with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PermafrostError(Exception):
    """Base of every error a user can cause. `exit_code` is public: see the README's table."""

    exit_code = 70


class ConfigError(PermafrostError):
    """A sweep, trial or option that says something it may not; `problems` holds all of them.

    `exit_code` is 2, or 3 where all that is wrong is a file that is absent or broken.
    """

    def __init__(self, problems: str | Iterable[str], *, exit_code: int = 2) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        self.exit_code = exit_code
        super().__init__("\n".join(self.problems))


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


def unknown(name: str, known: Iterable[str]) -> str:
    """`unknown 'frist_k', did you mean 'first_k'? Known: ...`, the one wording for a word nobody registered."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    return f"unknown {name!r}{hint} Known: {', '.join(names)}."
