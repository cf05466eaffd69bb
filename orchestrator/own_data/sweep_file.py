"""The sweep file of a question: whether it is there, as it was written, and what it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.config.yaml_document import Document
from orchestrator.own_data.question import FOR_HOURS, MADE_BY, NOTHING, Question
from trials.errors import ConfigError, RefusedError
from trials.outside.plain_files import read_text

# With it a later question about the same data may replace the file; whoever edits the file keeps it.
_SEAL = "# As it was written, if the SHA-256 of all above begins with "
_WAY_OUT = "Give --out another folder, or delete the file."


@dataclass(frozen=True)
class SweepFile:
    """The file at a path, which `choose` or a person wrote. What reads it raises ConfigError where it is not YAML."""

    path: Path

    def asks(self, asked: str) -> bool:
        """Whether it is there and `choose` or a person keeps it for this question. Raises RefusedError."""
        return self.path.exists() and self._first_line() == MADE_BY + asked

    def asks_alike(self, asked: str) -> bool:
        """Whether it is there for this question at any tolerance: its trials serve all. Raises RefusedError."""
        kept = self._first_line() if self.path.exists() else ""
        return kept.startswith(MADE_BY) and _at_any(kept.removeprefix(MADE_BY)) == _at_any(asked)

    def holds(self, question: Question) -> bool:
        """Whether it holds a question, apart from comments; kept weights may differ."""
        actual = Document.read(self.path).content
        expected = Document.of_text(self.path, question.sweep_text()).content
        for content in (actual, expected):
            content.pop("keep", None)
        return bool(actual == expected)

    def pins(self, asked: str) -> dict[str, str]:
        """The sources of data and model that it has at an exact version for a question at any tolerance, by key; empty
        where it is not there.
        """
        if not self.path.is_file() or not self.asks_alike(asked):
            return {}
        trial, pins = self._trial(), dict[str, str]()
        for key in ("data", "model"):
            kept = trial.get(key)
            if isinstance(kept, Mapping) and kept.get("hub") and kept.get("revision"):
                config = f"/{kept['config']}" if kept.get("config") else ""
                pins[key] = f"hub:{kept['hub']}{config}@{kept['revision']}"
            elif isinstance(kept, Mapping) and kept.get("ud") and kept.get("release"):
                pins[key] = f"ud:{kept['ud']}@{kept['release']}"
        return pins

    def rates(self) -> dict[int, float]:
        """The rates by depth; empty where all have one."""
        space = Document.read(self.path).content.get("space")
        cases = space.get("cases", ()) if isinstance(space, Mapping) else ()
        return {
            NOTHING if case["freeze"] == "none" else int(case["freeze"]["depth"]): float(case["optim.lr"])
            for case in cases
        }

    def rate(self) -> float | None:
        """The learning rate of all trials."""
        rate = self._optim().get("lr")
        return float(rate) if isinstance(rate, int | float) else None

    def epochs(self) -> int | None:
        """The epochs of all trials as `choose` wrote them; None in an edited file."""
        epochs = self._optim().get("epochs") if self._is_untouched() else None
        return epochs if isinstance(epochs, int) else None

    def hours(self) -> float | None:
        """The `--max-hours` for which it has a part of train; None for all of it, or where it was edited."""
        if not self._is_untouched():
            return None
        line = read_text(self.path, errors="replace").split("\n")[1]
        return float(line.removeprefix(FOR_HOURS)) if line.startswith(FOR_HOURS) else None

    def train_size(self) -> int | None:
        """The train items that it takes; None for all."""
        size = self._trial().get("train_size")
        return size if isinstance(size, int) else None

    def refuse_other(self, asked: str) -> None:
        """Check, before anything runs, that a question replaces no file that a person wrote or edited.

        Raises:
            RefusedError: The file is there, asks something else and is not as `choose` wrote it.
        """
        if self.path.exists() and self._first_line() != MADE_BY + asked and not self._is_untouched():
            raise RefusedError(
                f"{self.path}: already exists and is not as `permafrost choose` wrote it for this question. {_WAY_OUT}"
            )

    def refuse_edited(self, question: Question) -> None:
        """Check that the file is as `choose` wrote it, or holds the question.

        Raises:
            RefusedError: Somebody has edited it.
        """
        if not self._is_untouched() and not self.holds(question):
            raise RefusedError(
                f"{self.path}: was edited since `permafrost choose` wrote it. Run it with `permafrost launch --sweep`, "
                "give --out another folder, or delete the file."
            )

    def write(self, text: str) -> None:
        """Write the sweep. Raises ConfigError: it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{text}{_SEAL}{_digest(text)}\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written ({error.strerror}). Give --out another folder."
            ) from error

    def _optim(self) -> Mapping[str, Any]:
        optim = self._trial().get("optim")
        return optim if isinstance(optim, Mapping) else {}

    def _trial(self) -> Mapping[str, Any]:
        trial = Document.read(self.path).content.get("trial")
        return trial if isinstance(trial, Mapping) else {}

    def _is_untouched(self) -> bool:
        """Whether it is as `write` left it."""
        text, seal, digest = read_text(self.path, errors="replace").rpartition(_SEAL)
        return bool(seal) and digest.strip() == _digest(text)

    def _first_line(self) -> str:
        try:
            return read_text(self.path, errors="replace").partition("\n")[0]
        except OSError as error:
            reason = error.strerror
            raise RefusedError(f"{self.path}: already exists and cannot be read ({reason}). {_WAY_OUT}") from error


def _at_any(asked: str) -> list[str]:
    """The words of a question without its tolerance."""
    words = asked.split(" ")
    at = words.index("--tolerance") if "--tolerance" in words else len(words)
    return words[:at] + words[at + 2 :]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
