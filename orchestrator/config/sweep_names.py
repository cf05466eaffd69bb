"""The names that sweeps may have: a folder of a store has this name, and so have files of reports and logs."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from trials.escaping import composed

MOST_NAME_BYTES = 180  # of a sweep's name; file systems allow 255, and Ray's logs of a job add 50


def _file_name(name: str) -> str:
    """The name in the form in which it is stored and looked up."""
    name = composed(name)
    if (n_bytes := len(name.encode())) > MOST_NAME_BYTES:
        raise ValueError(f"has {n_bytes} bytes in UTF-8; a file's name with it has room for {MOST_NAME_BYTES}")
    if hidden := [character for character in name if not character.isprintable()]:
        raise ValueError(f"has the invisible character U+{ord(hidden[0]):04X}; leave it out")
    return name


SweepName: TypeAlias = Annotated[str, Field(pattern=r"^[^\W_][\w.-]*$", max_length=80), AfterValidator(_file_name)]
"""Letters of any script, digits, `_`, `.`, `-`; it begins with a letter or digit, so it leads to no other folder."""

_NAME = TypeAdapter[str](SweepName)


def is_sweep_name(name: object) -> bool:
    """Whether a sweep may have this name, which may come from somebody else's store."""
    try:
        _NAME.validate_python(name, strict=True)
    except ValidationError:
        return False
    return True
