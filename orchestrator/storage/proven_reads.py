"""Reads that prove what they found: a line or a disk that turns bits over is wrong twice in different ways."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator

import pyarrow as pa

from orchestrator.storage.storage import LAST, Storage
from trials.errors import StoreError

# Errors of the object itself; others are of this process, its memory, or its line to a file server. None: our own.
_OF_OBJECT = (errno.EIO, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EFBIG, None)
READS = 10  # with a third of the reads wrong, one object in 100,000 is wrong in all of them


class ProvenReads(Storage):
    """A storage, read past all caches, whose reads are right or were the same twice.

    Attributes:
        inner: The storage itself.
        repeated: The path of each object of which a read was wrong.
    """

    def __init__(self, inner: Storage, is_right: Callable[[str, bytes], bool], repeated: list[str]) -> None:
        """`is_right` says by an object's name whether bytes prove themselves to be its content."""
        self.inner, self._is_right, self.repeated = inner, is_right, repeated
        self.address, self.largest_bytes, self.at_once = inner.address, inner.largest_bytes, inner.at_once

    def __str__(self) -> str:
        return str(self.inner)

    def at(self, name: str) -> ProvenReads:
        """The folder of this name inside."""
        return ProvenReads(self.inner.at(name), self._is_right, self.repeated)

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and size of each object, as two listings in a row have them, or the last one while much is written."""
        listings = (self.inner.files(after, before) for _ in range(READS))
        return next((a for a, b in itertools.pairwise(listings) if a == b), None) or self.inner.files(after, before)

    def folders(self) -> list[str]:
        """The names of the folders inside."""
        return self.inner.folders()

    def exists(self, name: str) -> bool:
        """Whether an object exists."""
        return self.inner.exists(name)

    def open(self, name: str) -> pa.NativeFile:
        """Open an object, in memory."""
        return pa.BufferReader(self.read(name))

    def read(self, name: str) -> bytes:
        """An object's content.

        Raises:
            FileNotFoundError: it does not exist.
            OSError: it cannot be read, for the same reason twice.
            StoreError: it is remote and cannot be read, or no two reads agree.
        """
        seen: list[bytes | tuple[int | None, str]] = []
        for content in self._reads(name):
            if isinstance(content, tuple) and content[0] not in _OF_OBJECT:
                raise StoreError(f"{self}/{name}: cannot be read ({content[1]}). Make it readable first.")
            if isinstance(content, bytes) and self._is_right(name, content):
                if seen:
                    self.repeated.append(f"{self}/{name}")
                return content
            if content in seen:
                if isinstance(content, bytes):
                    return content
                raise OSError(*content)
            seen.append(content)
        raise StoreError(
            f"{self}/{name}: {READS} reads gave {READS} different contents, so the line or the disk is at fault and "
            "nothing can be said of the store. Nothing was changed. Try again from another machine."
        )

    def _reads(self, name: str) -> Iterator[bytes | tuple[int | None, str]]:
        for _ in range(READS):
            try:
                yield self.inner.read(name)
            except FileNotFoundError:
                raise
            except OSError as error:
                yield error.errno, error.strerror or str(error)

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write an object, and read it back.

        Raises:
            StoreError: it cannot be written, or is not there as it was written.
        """
        self.inner.write(name, content)
        if self.read(name) != content:
            raise StoreError(f"{self}/{name}: was not stored as it was written. Nothing was removed for it. Try again.")

    def create(self, name: str, content: bytes) -> bool:
        """Write an object only if none has this name."""
        return self.inner.create(name, content)

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        self.inner.delete(name)

    def is_free(self) -> bool:
        """Whether nothing is here."""
        return self.inner.is_free()

    def check_writable(self) -> None:
        """Check that the storage can be written."""
        self.inner.check_writable()
