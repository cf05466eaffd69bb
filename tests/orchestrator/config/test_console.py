"""Errors that are nobody's mistake end a command in words and with a public exit code."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
import typer

from orchestrator.config.console import reported
from tests.examples import each


@each("error", [
        MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed"), OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"),
        RuntimeError("can't start new thread"), ImportError("libtorch.so: failed to map segment from shared object"),
        RuntimeError("std::bad_alloc"),
    ])  # fmt: skip
def test_out_of_memory_is_exit_1_in_words(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_, reported(debug=False):
        raise error
    assert exit_.value.exit_code == 1
    assert "error: this process got no more memory" in " ".join(capsys.readouterr().err.split())
