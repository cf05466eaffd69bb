"""What somebody wants to find out about their own data, and where; one value from the command line down."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config.console import DEFAULT_STORE
from trials.errors import ConfigError, unknown
from trials.sources.local_models import STARTER
from trials.tasks import TASKS

Ask = Callable[[str, Sequence[str]], str]
"""Ask a person for one of several columns; returns its name or position."""


@dataclass(frozen=True, kw_only=True)
class ChooseOptions:
    """The options of `choose` and `init`.

    Attributes:
        data: A folder, a file, a bundled sample, `ud:NAME@RELEASE` or `hub:OWNER/NAME[/CONFIG]@REVISION`.
        task: A registered task; None for what the files hold.
        model: `starter`, a folder, or `hub:OWNER/NAME@REVISION`.
        tolerance: Acceptable loss in points, above 0 and below 100.
        text: Column of a table with the texts, by name or by position from 0; None for what the columns hold.
        label: Column with their labels.
        max_hours: Limit of this launch. If all trials would take longer, a part of train is used.
        out: Folder of the sweep files; None for the one that holds the store, or the current one.
        cluster: As of `launch`.
        cpus, gpus: Cores and GPUs of this machine that it uses; None for all that this process may.
        export: A new folder for the model; None for none.
        dry_run: Write and forecast the sweep only.
        offline: Refuse to download.
        ask: Asks a person for columns; None for nobody there.
    """

    data: str
    task: str | None = None
    model: str = STARTER
    tolerance: float = 1.0
    text: str | None = None
    label: str | None = None
    max_hours: float = 1.0
    store: str = DEFAULT_STORE
    out: str | Path | None = None
    cluster: str = "local"
    cpus: int | None = None
    gpus: int | None = None
    export: str | Path | None = None
    dry_run: bool = False
    offline: bool = False
    ask: Ask | None = None

    def check(self) -> None:
        """Raise ConfigError if a value is invalid; columns and names are checked when they are looked up."""
        if self.task is not None and self.task not in TASKS:
            raise ConfigError(f"--task: {unknown(self.task, TASKS)}")
        if not 0 < self.tolerance < 100:
            raise ConfigError(f"--tolerance {self.tolerance:g}: must be above 0 and below 100 points.")
        if (self.text is None) != (self.label is None):
            raise ConfigError("--text and --label go together. Give both, by name or by position from 0.")

    @property
    def question(self) -> str:
        """The command that asks this, without the options that change where and when it runs only."""
        options = {
            "--task": self.task, "--model": self.model, "--tolerance": f"{self.tolerance:g}", "--text": self.text,
            "--label": self.label,
        }  # fmt: skip
        given = (word for name, value in options.items() if value for word in (name, value))
        return shlex.join(["permafrost", "choose", self.data, *given])
