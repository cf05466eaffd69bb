"""Weight files of a model: whether they are complete, and the shapes of their tensors, by their headers alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from trials.errors import ModelError
from trials.escaping import MOST_CONTENT, MOST_TEXT, opened, stamp_of

_LENGTH_BYTES = 8  # of the number at the beginning of a file, the bytes of its header


def tensor_shapes(folder: Path, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in the safetensors files of these names.

    Raises:
        ModelError: a file is truncated or not a safetensors file; says which of its tensors are missing.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for name in names:
        path = folder / name
        try:
            stamp_of(path)  # the library would open a pipe
            with safe_open(path, framework="np") as file:
                shapes |= {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 - no dict
        except (SafetensorError, OSError, ValueError) as error:
            raise ModelError(
                f"{path}: {_fault(path) or f'not a safetensors file ({error})'}. Fetch or copy it again."
            ) from error
    return shapes


def _fault(path: Path) -> str | None:
    """What a truncated file lacks; None if it is not truncated."""
    with opened(path, MOST_CONTENT) as file:
        size = path.stat().st_size
        header_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        start = _LENGTH_BYTES + header_bytes
        if size < _LENGTH_BYTES:
            return f"is truncated: it has {size:,} bytes, no header"
        try:
            header = json.loads(file.read(header_bytes)) if start <= size and header_bytes <= MOST_TEXT else {}
            ends = {str(key): int(value["data_offsets"][1]) for key, value in header.items() if key != "__metadata__"}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
    lost = sorted(name for name, end in ends.items() if start + end > size)
    if not lost:
        return None
    whole = start + max(ends.values())
    return (
        f"is truncated: it has {size:,} of {whole:,} bytes, so {len(lost)} of {len(ends)} tensors are missing or cut "
        f"off ({', '.join(lost[:2])}{', ...' if len(lost) > 2 else ''})"
    )
