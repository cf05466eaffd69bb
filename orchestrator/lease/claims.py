"""What drivers write to claim a sweep.

A claim is a row of objects `<token>-<count>-<asks or holds>.json` of one driver: each heartbeat writes the next one and
takes the older away, because an object of a place is never changed. A listing alone shows who claims and whose count
has moved; an object is read only to say who that is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.lease.holder import Holder
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

LEASES = "leases"  # the folder
_NAME = re.compile(r"([0-9a-f]{16})-(\d{8})-(asks|holds)\.json")


@dataclass(frozen=True)
class Claim:
    """What a listing shows of one driver.

    Attributes:
        token: The driver's own.
        names: Its objects, oldest first.
    """

    token: str
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """Of its newest object."""
        return int(self._newest[2])

    @property
    def holds(self) -> bool:
        """Whether it has the lease; else it asks for it."""
        return self._newest[3] == "holds"

    @property
    def _newest(self) -> re.Match[str]:
        found = _NAME.fullmatch(self.names[-1])
        assert found is not None, self.names
        return found


class ClaimFolder:
    """`<store>/leases/<sweep>`.

    Attributes:
        storage: Where it is stored.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def look(self) -> dict[str, Claim]:
        """The claims that are there, by token.

        Raises:
            StoreError: the storage cannot be read.
        """
        names: dict[str, list[str]] = {}
        try:
            listed = self.storage.files()
        except OSError as error:
            raise StoreError(f"{self.storage}: cannot be read ({error}).") from error
        for name in sorted(listed):
            if found := _NAME.fullmatch(name):
                names.setdefault(found[1], []).append(name)
        return {token: Claim(token, tuple(of_one)) for token, of_one in names.items()}

    def write(self, token: str, count: int, holder: Holder, *, holds: bool) -> str:
        """Write the next object of a claim, and return its name.

        Raises:
            StoreError: it cannot be written.
        """
        name = f"{token}-{count:08d}-{'holds' if holds else 'asks'}.json"
        self.storage.write(name, holder.as_json())
        return name

    def holder(self, claim: Claim) -> Holder | None:
        """Who claims; None where that object is gone by now.

        Raises:
            StoreError: it cannot be read, or nothing of ours wrote it.
        """
        path = f"{self.storage}/{claim.names[-1]}"
        try:
            return Holder(**json.loads(self.storage.read(claim.names[-1]).decode("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise StoreError(
                f"{path}: not a readable lease ({error}). If no driver runs this sweep, delete it."
            ) from error

    def remove(self, names: Iterable[str]) -> None:
        """Take objects away.

        Raises:
            StoreError: they cannot be.
        """
        try:
            for name in names:
                self.storage.delete(name)
        except OSError as error:
            raise StoreError(f"{self.storage}: {name} cannot be taken away ({error}). Delete it by hand.") from error


def claims_of(store: Storage) -> Iterator[tuple[str, ClaimFolder, Claim]]:
    """Every claim in a store, with its sweep and the folder that it is in. Raises StoreError."""
    for sweep in store.at(LEASES).folders():
        folder = ClaimFolder(store.at(LEASES).at(sweep))
        for claim in folder.look().values():
            yield sweep, folder, claim
