"""Errors that are nobody's mistake end a command in words and with a public exit code."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from orchestrator.config.console import SafeConsole, reported
from tests.examples import each
from trials.errors import ModelError


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@each("error", [
        MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed"), OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"),
        RuntimeError("can't start new thread"), ImportError("libtorch.so: failed to map segment from shared object"),
        RuntimeError("std::bad_alloc"), pa.ArrowException("Failed to launch worker thread: Resource unavailable"),
        caused(ModelError("its weights cannot be loaded"), RuntimeError("can't allocate memory")),
    ])  # fmt: skip
def test_out_of_memory_is_exit_1_in_words(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_, reported(debug=False):
        raise error
    assert exit_.value.exit_code == 1
    assert "error: this process got no more memory" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (100 << 20, ["status"]),  # not even a library would fit
        (700 << 20, ["status"]),  # one would wait for memory without end
        pytest.param(2 << 30, ["launch", "--cluster", "inline"], marks=pytest.mark.slow),  # one would abort
    ],
)
def test_a_limit_of_memory_that_is_too_low_is_exit_1_in_words(limit: int, words: list[str], tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command = [str(Path(sys.executable).with_name("permafrost")), *words, "--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: this process got no more memory")
    assert "Traceback" not in done.stderr


def test_messages_that_nobody_reads_any_more_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1) as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        os.close(reader)
        for n in range(3):
            SafeConsole(stderr=True).print(f"{n}/3 completed")  # rich's own raises BrokenPipeError
