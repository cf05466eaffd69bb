"""Hidden states of a split's examples in one memory-mapped file, written example by example and shared by all workers.

    <cache>/prefix/<key>/<split>.states     (subwords of all examples, width) floats without padding, a sparse file
    <cache>/prefix/<key>/<split>.seconds    a float64 an example: the seconds that its states took, 0 until written

Whoever uses the states later reports what they took, as if it had computed them. Writes use `pwrite`, so that a full
disk is an error and not a signal; reads use the memory map.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from trials.sources.cache import locked

_ITEM = 8  # bytes of a float64
Compute = Callable[[Sequence[int]], Iterator[tuple[int, torch.Tensor, float]]]  # index, states, seconds


class StatesFile:
    """The states of one split at one depth.

    Attributes:
        folder: Of the depth; created by `trials.cache.node_cache`.
    """

    def __init__(self, folder: Path, split: str, lengths: Sequence[int], width: int) -> None:
        """`lengths`: (examples,) number of subwords of each example."""
        self.folder, self.width = folder, width
        self._ends = np.cumsum([0, *lengths])
        self._states, self._seconds = folder / f"{split}.states", folder / f"{split}.seconds"
        self._map: torch.Tensor | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the states of all examples."""
        return int(self._ends[-1]) * self.width * 4

    def missing(self, wanted: Sequence[int]) -> list[int]:
        """Those of the examples whose states are not in the file yet."""
        took = self.seconds()
        return [i for i in wanted if not took[i]]

    def seconds(self) -> np.ndarray:
        """(examples,) seconds that the states of each example took; 0 where they are not in the file."""
        took = np.zeros(len(self._ends) - 1)
        with contextlib.suppress(FileNotFoundError):
            written = np.fromfile(self._seconds)
            took[: len(written)] = written
        return took

    def fill(self, wanted: Sequence[int], compute: Compute) -> float:
        """Compute and write the missing states of these examples, and return the seconds that this process spent on it.

        A lock keeps two workers from computing the same. Raises OSError if the disk is full or the folder is gone.
        """
        if not self.missing(wanted):
            return 0.0
        with locked(self._seconds.with_suffix(".lock")):
            began = time.perf_counter()
            missing = self.missing(wanted)  # another worker may have written some
            n_bytes = _ITEM * (len(self._ends) - 1)
            with _opened(self._states, self.n_bytes) as states, _opened(self._seconds, n_bytes) as seconds:
                for i, computed, took in compute(missing):
                    _write_all(states, computed.numpy().tobytes(), int(self._ends[i]) * self.width * 4)
                    _write_all(seconds, np.float64(took).tobytes(), _ITEM * i)
            return time.perf_counter() - began

    def read(self, i: int) -> torch.Tensor:
        """(subwords, width) states of an example, a view of the file. Raises OSError if the file is gone."""
        if self._map is None:
            shape = (int(self._ends[-1]), self.width)
            try:
                self._map = torch.from_numpy(np.memmap(self._states, dtype=np.float32, mode="r+", shape=shape))
            except ValueError as error:  # numpy raises it if the file is shorter than the map
                raise OSError(errno.EIO, "the file of states is incomplete", str(self._states)) from error
        return self._map[int(self._ends[i]) : int(self._ends[i + 1])]


@contextlib.contextmanager
def _opened(path: Path, n_bytes: int) -> Iterator[int]:
    """A descriptor of a sparse file of at least `n_bytes`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if os.fstat(descriptor).st_size < n_bytes:
            os.ftruncate(descriptor, n_bytes)
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes, at: int) -> None:
    while content:
        n = os.pwrite(descriptor, content, at)
        content, at = content[n:], at + n
