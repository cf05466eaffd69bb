"""Hidden states of a split's examples in one memory-mapped file, written example by example and shared by all workers.

    <cache>/prefix/<key>/<split>.states     (subwords of all examples, width) floats without padding, a sparse file
    <cache>/prefix/<key>/<split>.done       one byte an example: 1 when its states are written

Writes use `pwrite`, so that a full disk is an error and not a signal; reads use the memory map.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from trials.sources.cache import locked

Compute = Callable[[Sequence[int]], Iterator[tuple[int, torch.Tensor]]]


class StatesFile:
    """The states of one split at one depth.

    Attributes:
        folder: Of the depth; created by `trials.cache.node_cache`.
        width: Size of a hidden state.
    """

    def __init__(self, folder: Path, split: str, lengths: Sequence[int], width: int) -> None:
        """`lengths`: (examples,) number of subwords of each example."""
        self.folder, self.width = folder, width
        self._ends = np.cumsum([0, *lengths])
        self._states, self._done = folder / f"{split}.states", folder / f"{split}.done"
        self._map: torch.Tensor | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the states of all examples."""
        return int(self._ends[-1]) * self.width * 4

    def missing(self, wanted: Sequence[int]) -> list[int]:
        """Those of the examples whose states are not in the file yet."""
        try:
            done = np.fromfile(self._done, dtype=np.uint8)
        except FileNotFoundError:
            return list(wanted)
        return [i for i in wanted if i >= len(done) or not done[i]]

    def fill(self, wanted: Sequence[int], compute: Compute) -> None:
        """Compute and write the missing states of these examples; a lock keeps two workers from computing the same.

        Raises:
            OSError: the disk is full or the folder is gone.
        """
        if not self.missing(wanted):
            return
        with locked(self._done.with_suffix(".lock")):
            missing = self.missing(wanted)  # another worker may have written some
            with _opened(self._states, self.n_bytes) as states, _opened(self._done, len(self._ends) - 1) as done:
                for i, computed in compute(missing):
                    _write_all(states, computed.numpy().tobytes(), int(self._ends[i]) * self.width * 4)
                    _write_all(done, b"\1", i)

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
