"""Hidden states of a split's examples in one memory-mapped file, written example by example and shared by all workers.

    <cache>/prefix/<key>/<split>.states   (subwords of all examples, width) floats without padding, a sparse file
    <cache>/prefix/<key>/<split>.rows     a row an example: the seconds that its states took, and a digest of states,
                                          seconds and place; zeros until the states are written

Whoever uses the states later reports what they took, as if it had computed them. Every trial checks the digests of the
states that it uses when it maps them; what does not fit is computed anew. A file
that is not a plain one of the right size is deleted first, not cut or extended, since other workers may have it mapped.
Writes use `pwrite`, so that a full disk is an error and not a signal; reads use a map that cannot write.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from xxhash import xxh3_64_intdigest as _xxh3

from trials.cache.node_cache import fast_digest
from trials.cache.set_up_work import note
from trials.outside.plain_files import open_plain, stamp_of
from trials.sources.cache import discard, file_lock

_ROW = np.dtype([("seconds", "<f8"), ("digest", "<u8")])
_PLACE = struct.Struct("<qd")  # an example's index and seconds
Compute = Callable[[Sequence[int]], Iterator[tuple[int, torch.Tensor, float]]]  # index, states, seconds


class StatesFile:
    """The states of one split at one depth.

    Attributes:
        folder: Of the depth; created by `trials.cache.node_cache`.
    """

    def __init__(self, folder: Path, split: str, lengths: Sequence[int], width: int) -> None:
        """`lengths`: (examples,) number of subwords of each example."""
        self.folder, self.width = folder, width
        self._place = fast_digest(split.encode(), folder.name)
        self._ends = np.cumsum([0, *lengths])
        self._states, self._rows = folder / f"{split}.states", folder / f"{split}.rows"
        self._map: np.ndarray | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the states of all examples."""
        return int(self._ends[-1]) * self.width * 4

    def missing_examples(self, wanted: Sequence[int]) -> list[int]:
        """The wanted examples whose states are not in the file, or not as they were written."""
        absent, broken = self._not_intact(wanted)
        return sorted([*absent, *broken])

    def seconds(self) -> np.ndarray:
        """(examples,) seconds that the states of each example took; 0 where they are not in the file."""
        seconds: np.ndarray = self._written_flags()["seconds"]
        return seconds

    def fill(self, wanted: Sequence[int], compute: Compute) -> float:
        """Compute and write the missing states of these examples, and return the seconds that this process spent on it.

        A lock keeps two workers from computing the same. Raises OSError if the disk is full or the folder is gone.
        """
        if not self.missing_examples(wanted):
            return 0.0
        with file_lock(self._rows.with_suffix(".lock")):
            began = time.perf_counter()
            self._discard_misfits()
            absent, broken = self._not_intact(wanted)  # another worker may have written some
            if broken:
                share = f"{len(broken):,} of {len(wanted):,}"
                self._say(f"the states of {share} examples in {self._states} do not match their digests")
            n_rows = _ROW.itemsize * (len(self._ends) - 1)
            with _create(self._states, self.n_bytes) as states, _create(self._rows, n_rows) as rows:
                for i, computed, took in compute(sorted([*absent, *broken])):
                    # The states first: their row says that they are there. A kill in between leaves them absent, and a
                    # crash of the machine, which may keep the row alone, shows in the digest.
                    content = computed.numpy()
                    row = np.array((took, self._digest(content.data, i, took)), _ROW)
                    _write_all(states, content.tobytes(), int(self._ends[i]) * self.width * 4)
                    _write_all(rows, row.tobytes(), _ROW.itemsize * i)
            self._map = None  # a private map need not show what was written after it was made (mmap(2))
            return time.perf_counter() - began

    def read(self, i: int) -> torch.Tensor:
        """(subwords, width) states of an example, a view of the file. Raises OSError if the file is gone or cut."""
        return torch.from_numpy(self._mapped_file()[int(self._ends[i]) : int(self._ends[i + 1])])

    def _mapped_file(self) -> np.ndarray:
        if self._map is None:
            shape = (int(self._ends[-1]), self.width)
            with open_plain(self._states, self.n_bytes) as file:
                try:  # copy-on-write, as torch requires writable memory
                    content = mmap.mmap(file.fileno(), self.n_bytes, access=mmap.ACCESS_COPY)
                except ValueError as error:  # the file is shorter than the map
                    raise OSError(f"{self._states}: is incomplete") from error
            self._map = np.frombuffer(content, np.float32).reshape(shape)
        return self._map

    def _not_intact(self, wanted: Sequence[int]) -> tuple[list[int], list[int]]:
        """Examples whose states are not in the file, and those whose states are not what was written."""
        rows = self._written_flags()
        digests, seconds = rows["digest"].tolist(), rows["seconds"].tolist()
        absent = [i for i in wanted if not (digests[i] or seconds[i])]
        here = [i for i in wanted if digests[i] or seconds[i]]
        if not here:
            return absent, []
        try:
            states, ends = self._mapped_file(), self._ends.tolist()
        except OSError:
            return absent, here
        content, row = states.reshape(-1).data.cast("B"), 4 * self.width
        return absent, [
            i for i in here if self._digest(content[row * ends[i] : row * ends[i + 1]], i, seconds[i]) != digests[i]
        ]

    def _written_flags(self) -> np.ndarray:
        rows = np.zeros(len(self._ends) - 1, _ROW)
        with contextlib.suppress(OSError), open_plain(self._rows, rows.nbytes) as file:
            content = file.read(rows.nbytes)  # perhaps less: a full disk leaves a beginning, which is used
            written = np.frombuffer(content[: len(content) // _ROW.itemsize * _ROW.itemsize], _ROW)
            rows[: len(written)] = written
        return rows

    def _digest(self, states: memoryview, i: int, seconds: float) -> int:
        return (
            _xxh3(states, _xxh3(_PLACE.pack(i, seconds), self._place)) or 1
        )  # 0 is what a row holds that was not written

    def _discard_misfits(self) -> None:
        """Delete what cannot be these files."""
        sizes = {self._states: self.n_bytes, self._rows: _ROW.itemsize * (len(self._ends) - 1)}
        for path, n_bytes in sizes.items():
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink() and _size(path) == n_bytes:
                    continue
                discard(path)
                self._say(f"{path} is not a plain file of {n_bytes:,} bytes")
                self._map = None

    def _say(self, what: str) -> None:
        note(f"cache: {what}; they are computed anew.")


def _size(path: Path) -> int | None:
    """Bytes of a plain file; None if it is none. Raises FileNotFoundError."""
    try:
        return stamp_of(path).n_bytes
    except FileNotFoundError:
        raise
    except OSError:
        return None


@contextlib.contextmanager
def _create(path: Path, n_bytes: int) -> Iterator[int]:
    """A descriptor of a sparse file of `n_bytes`."""
    # Not through a link: others may write to the cache's folder, and would choose which file is overwritten.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        if os.fstat(descriptor).st_size != n_bytes:
            os.ftruncate(descriptor, n_bytes)
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    while content:
        n = os.pwrite(descriptor, content, offset)  # may write less, before it fails on a full disk
        content, offset = content[n:], offset + n
