"""Which driver has which trial: objects `claims/<trial_id>-<number>.json`, each created once and never changed."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping

from orchestrator.claims.membership import Membership
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

CLAIMS = "claims"  # the folder
_NAME = re.compile(r"(.+)-(\d{6,})\.json")


class Claims:
    """The claims of a store, as one driver sees them. `refresh` looks; the rest goes by the last look.

    A look may be old, and is never wrong about what is free: a driver that was not present never is again, and what was
    claimed since then cannot be created. That is why the older claims to a trial stay until it has ended.

    Attributes:
        others: The tokens of the other drivers at the last look.
    """

    def __init__(self, store: Storage, membership: Membership) -> None:
        self._folder, self._membership = store.at(CLAIMS), membership
        self._newest: dict[str, int] = {}
        self._drivers: dict[str, str] = {}  # by name of the claim
        self.others: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """Look at all claims, and then at who is present. Raises StoreError."""
        # In this order: the driver of each listed claim was present before, so if it is not listed, it has ended.
        self._newest = newest(listed(self._folder))
        self.others = frozenset(self._membership.others())

    def is_claimed(self, trial_id: str) -> bool:
        """Whether there is a claim, of any driver."""
        return trial_id in self._newest

    def is_free(self, trial_id: str) -> bool:
        """Whether no other driver has the trial. Raises StoreError."""
        number = self._newest.get(trial_id)
        return number is None or self._driver(_name(trial_id, number)) not in self.others

    def take(self, trial_id: str, at_least: int = 1) -> int | None:
        """Claim the next attempt at a trial, also one's own next one.

        Args:
            trial_id: The trial.
            at_least: Above the number of each attempt that has rows.

        Returns:
            Its number; None if another driver has the trial.

        Raises:
            StoreError: the storage does not answer, or cannot be written.
        """
        # If two create the same number the storage lets one: the other looks again, and finds the trial taken, or free
        # once more because the quicker driver has ended meanwhile.
        while self.is_free(trial_id):
            number = max(at_least, self._newest.get(trial_id, 0) + 1)
            if self._folder.create(_name(trial_id, number), _content(self._membership.token, trial_id, number)):
                self._newest[trial_id] = number
                self._drivers[_name(trial_id, number)] = self._membership.token
                return number
            self.refresh()
        return None

    def release(self, trial_id: str) -> None:
        """Give up one's own newest claim to a trial that has not begun. Raises StoreError.

        Nothing is deleted, as a deletion that takes effect late could hit a later claim of the same name: the next
        number names no driver.
        """
        number = self._newest[trial_id] + 1
        self._folder.create(_name(trial_id, number), _content(f"released-{self._membership.token}", trial_id, number))
        self._newest[trial_id] = number

    def drop(self, trial_id: str) -> None:
        """Delete one's own newest claim to a trial that turned out to have ended. Raises StoreError."""
        self._folder.delete(_name(trial_id, self._newest.pop(trial_id)))

    def delete(self, ended: Mapping[str, int]) -> None:
        """Delete the claims to trials that this driver has ended and whose rows are committed, up to that attempt.

        A later one is of a driver that took the trial over, or resumes it: without it a third driver could use that
        number, too.

        Raises:
            StoreError: the storage does not answer.
        """
        # All of them up to that number, as older claims of other drivers stand until their trial has ended.
        names = listed(self._folder) if ended else []
        names = [name for name in names if _number(name) <= ended.get(trial_of(name), 0)]
        for trial_id, number in ended.items():
            if self._newest.get(trial_id, 0) <= number:
                self._newest.pop(trial_id, None)
        self._folder.each(self._folder.delete, names)

    def _driver(self, name: str) -> str:
        if name not in self._drivers:
            driver = driver_of(self._folder, name)
            if driver is None:  # deleted since the last look, as its trial has ended: nobody's
                return ""
            self._drivers[name] = driver
        return self._drivers[name]


def listed(folder: Storage) -> list[str]:
    """The names of all claims.

    Raises:
        StoreError: the storage cannot be read.
    """
    try:
        return [name for name in folder.files() if _NAME.fullmatch(name)]
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read ({error}).") from error


def newest(names: Iterable[str]) -> dict[str, int]:
    """The number of the newest claim of each trial."""
    numbers: dict[str, int] = {}
    for name in names:
        numbers[trial_of(name)] = max(_number(name), numbers.get(trial_of(name), 0))
    return numbers


def trial_of(name: str) -> str:
    """The trial that a claim of this name is to."""
    return name.rpartition("-")[0]


def drivers_of(folder: Storage) -> Mapping[str, str]:
    """Trial -> the token of the driver that has its newest claim; claims that cannot be read are left out."""
    tokens = {i: driver_of(folder, _name(i, number)) for i, number in newest(listed(folder)).items()}
    return {trial_id: token for trial_id, token in tokens.items() if token}


def driver_of(folder: Storage, name: str) -> str | None:
    """The token in a claim; empty if it cannot be understood, None if the claim no longer exists. Raises StoreError."""
    try:
        content = folder.read(name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{folder}/{name}: cannot be read ({error}).") from error
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(content.decode("utf-8"))["driver"])
    return ""


def _number(name: str) -> int:
    return int(name.removesuffix(".json").rpartition("-")[2])


def _name(trial_id: str, number: int) -> str:
    return f"{trial_id}-{number:06d}.json"


def _content(token: str, trial_id: str, number: int) -> bytes:
    return (json.dumps({"driver": token, "trial_id": trial_id, "attempt": number}) + "\n").encode()
