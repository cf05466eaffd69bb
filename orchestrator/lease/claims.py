"""The objects that drivers write to claim a sweep.

A claim is a sequence of objects `<token>-<count>-<asks or holds>.json` of one driver: each heartbeat writes the next
one and deletes the previous one, because objects never change. A listing is enough to see which claims exist and which
have changed; an object is read only to find out whose it is.
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
    """One driver's claim, as a listing shows it.

    Attributes:
        token: Identifies the claim.
        names: Its objects, oldest first.
    """

    token: str
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of its newest object."""
        return int(self._newest[2])

    @property
    def holds(self) -> bool:
        """Whether it holds the lease; otherwise it asks for it."""
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

    def claims(self) -> dict[str, Claim]:
        """All claims, by token.

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
        """Write the next object of a claim.

        Returns:
            Its name.

        Raises:
            StoreError: it cannot be written.
        """
        name = f"{token}-{count:08d}-{'holds' if holds else 'asks'}.json"
        self.storage.write(name, holder.as_json())
        return name

    def holder(self, claim: Claim) -> Holder | None:
        """The driver that a claim belongs to; None if its newest object no longer exists.

        Raises:
            StoreError: the object cannot be read, or is not a claim.
        """
        path = f"{self.storage}/{claim.names[-1]}"
        try:
            return Holder(**json.loads(self.storage.read(claim.names[-1]).decode("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise StoreError(
                f"{path}: not a readable lease ({error}). Run `permafrost store repair`, which removes leases "
                "that no driver renews."
            ) from error

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects.

        Raises:
            StoreError: one cannot be deleted.
        """
        try:
            for name in names:
                self.storage.delete(name)
        except OSError as error:
            raise StoreError(f"{self.storage}: {name} cannot be deleted ({error}). Delete it by hand.") from error


def claims_of(store: Storage) -> Iterator[tuple[str, ClaimFolder, Claim]]:
    """Every claim in a store, with its sweep and the folder that it is in. Raises StoreError."""
    for sweep in store.at(LEASES).folders():
        folder = ClaimFolder(store.at(LEASES).at(sweep))
        for claim in folder.claims().values():
            yield sweep, folder, claim
