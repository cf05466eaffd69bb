"""Names of objects: a time, so that they sort by age, then a digest of the content.

    part-01795183308170301531-9f2c51d0a1b2c3d4.parquet

Two writers that use the same name have written the same bytes. Names of the first version end in eight random digits;
they remain valid, but cannot be verified.
"""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa

from orchestrator.storage.proven_reads import ProvenReads
from orchestrator.storage.storage import Storage

CHECKPOINTS = "checkpoints"  # the folder
WRONG_DIGEST = "its bytes do not match the digest in its name"
_DIGITS = 16
_DIGEST = re.compile(rf"-([0-9a-f]{{{_DIGITS}}})\.[a-z]+")


def digest(content: bytes | pa.Buffer) -> str:
    """The first 16 hex digits of the SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def stamped(kind: str, stamp_ns: int, content: bytes | pa.Buffer, suffix: str) -> str:
    """The name of a new object, e.g. of kind `part` and suffix `parquet`."""
    return f"{kind}-{stamp_ns:020d}-{digest(content)}.{suffix}"


def stamp_of(name: str) -> int:
    """The time in the name of an object, in nanoseconds; 0 if it has none."""
    parts = name.split(".")[0].split("-")
    return int(parts[1]) if len(parts) > 1 and parts[1].isascii() and parts[1].isdigit() else 0


def promised(name: str) -> str | None:
    """The digest in a name; None for names of the first version."""
    found = _DIGEST.search(name)
    return found[1] if found else None


def is_intact(name: str, content: bytes | pa.Buffer) -> bool:
    """Whether the bytes match the digest in a name, if it has one."""
    return promised(name) in (None, digest(content))


def proven_reads(storage: Storage) -> ProvenReads:
    """The storage, read so that a wrong read is no finding."""
    if isinstance(storage, ProvenReads):
        return storage
    return ProvenReads(storage, lambda name, content: promised(name) is not None and is_intact(name, content), [])


def read_intact(storage: Storage, name: str) -> pa.Buffer:
    """An object, from a cache where its bytes match the digest in its name, else as `proven_reads` reads it."""
    with storage.open(name) as file:
        content = file.read_buffer()
    return content if is_intact(name, content) else pa.py_buffer(proven_reads(storage).read(name))
