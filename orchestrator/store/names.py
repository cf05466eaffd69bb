"""Names of objects that are never changed: time first, so that they sort by age, then a digest of what they hold.

    part-00001795183308170301531-9f2c51d0a1b2c3d4.parquet

Two writers that give the same name have written the same bytes. Names from before there were digests end in eight
random digits; they stay valid and have nothing to be checked against.
"""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa

CHECKPOINTS = "checkpoints"  # the folder
WRONG_DIGEST = "its bytes do not match the digest in its name"
_DIGITS = 16
_DIGEST = re.compile(rf"-([0-9a-f]{{{_DIGITS}}})\.[a-z]+")


def digest(content: bytes | pa.Buffer) -> str:
    """The first 16 hex digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def stamped(kind: str, stamp_ns: int, content: bytes | pa.Buffer, suffix: str) -> str:
    """The name of a new object, e.g. of kind `part` and suffix `parquet`."""
    return f"{kind}-{stamp_ns:020d}-{digest(content)}.{suffix}"


def promised(name: str) -> str | None:
    """The digest that a name promises; None where it is from before there were any."""
    found = _DIGEST.search(name)
    return found[1] if found else None


def is_intact(name: str, content: bytes | pa.Buffer) -> bool:
    """Whether these are the bytes that were written under a name, as far as it says."""
    return promised(name) in (None, digest(content))
