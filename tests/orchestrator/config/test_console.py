"""Errors that are nobody's mistake end a command in words and with a public exit code."""

from __future__ import annotations

import errno
import io
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from orchestrator.config.console import SafeConsole, _with_count, errors_as_exit_codes, say, sibling_command, stderr
from orchestrator.config.notebook import NotebookOutput, notebook_output
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
    with pytest.raises(typer.Exit) as exit_, errors_as_exit_codes():
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


# --- What a call shows in a notebook: one output, in which text is only text.


Bundles = list[dict[str, str]]


@pytest.fixture
def shown() -> Bundles:
    return []


@pytest.fixture
def output(shown: Bundles) -> Iterator[NotebookOutput]:
    stderr.output = output = NotebookOutput(shown.append)
    yield output
    stderr.output = None


def test_what_is_said_stays_in_one_output_as_text_and_nothing_goes_to_stderr(
    output: NotebookOutput, shown: Bundles, capsys: pytest.CaptureFixture[str]
) -> None:
    say("first")
    say("second")
    assert [bundle["text/plain"] for bundle in shown] == ["first\n", "first\nsecond\n"]
    say("<script>alert(1)</script> [red]x[/red] \x1b[31m")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [red]x[/red]" in shown[-1]["text/html"]
    assert not any("\x1b" in text for text in shown[-1].values())
    assert capsys.readouterr().err == ""


def test_a_drawing_is_replaced_below_what_is_said_and_one_that_does_not_change_is_not_shown_again(
    output: NotebookOutput, shown: Bundles
) -> None:
    with output.drawing(lambda console: console.print("still")):
        for _ in range(3):
            output.redraw()
    assert len(shown) == 1
    shown.clear()
    done = ["nothing"]
    with output.drawing(lambda console: console.print(f"done: {done[0]}")):
        say("a note")
        done[0] = "all"
    say("the end")
    assert shown[0]["text/plain"] == "a note\ndone: nothing\n"
    assert shown[-1]["text/plain"] == "a note\nthe end\ndone: all\n"


def test_outside_a_notebook_what_is_said_goes_to_stderr_and_an_interrupt_says_how_to_resume(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with notebook_output("resume"):
        say("plain")
    assert capsys.readouterr().err == "plain\n"
    with pytest.raises(KeyboardInterrupt, match="Call `launch` again"), notebook_output("Call `launch` again."):
        raise KeyboardInterrupt


def test_a_reader_that_has_read_enough_ends_a_command_in_silence() -> None:
    with_block = "with console.errors_as_exit_codes(): print('x' * 10**6, flush=True)"
    code = f"from orchestrator.config import console\n{with_block}"
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert ended.returncode == 1
    assert "internal error" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr


@each("encoding, shown", [
        ("ascii", "# ##.. first 2 :--o--: caf\\xe9"),
        ("latin-1", "# ##.. first 2 :--o--: café"),
        ("utf-8", "■ ■■□□ first 2 ┊──●──┊ café"),
    ])  # fmt: skip
def test_what_a_stream_cannot_write_is_drawn_in_ascii(encoding: str, shown: str) -> None:
    bytes_ = io.BytesIO()
    file = io.TextIOWrapper(bytes_, encoding=encoding)
    SafeConsole(file=file).print("■ ■■□□ first 2 ┊──●──┊ café")
    file.flush()
    assert bytes_.getvalue().decode(encoding) == shown + "\n"


def test_lines_of_a_file_that_are_wrong_for_one_cause_are_one_error() -> None:
    lines = [f"a.csv:{n}: a row has 5 columns. Fix it." for n in range(2, 9)]
    assert _with_count("\n".join([*lines, "... and 60 more broken lines."])) == (
        "error: a.csv:2: a row has 5 columns. Fix it. Likewise lines 3, 4, 5, 6, 7 and 61 more."
    )
    assert (
        _with_count("a.csv:2: x.\na.csv:9: x.\nb.csv:2: x.") == "2 errors:\na.csv:2: x. Likewise line 9.\nb.csv:2: x."
    )


def test_where_nothing_is_installed_the_next_command_is_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", [str(tmp_path / "python"), "-m", "orchestrator.launch"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", sys.__spec__)  # a worker of the tests is no module
    assert sibling_command("status", "--trials") == f"{tmp_path}/python -m dashboards.cli status --trials"
    (tmp_path / "permafrost").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "permafrost").chmod(0o755)
    assert sibling_command("status", "--trials") == f"{tmp_path}/permafrost status --trials"
    usage = subprocess.run([sys.executable, "-m", "dashboards.cli"], capture_output=True, text=True, check=False)
    assert "Usage: permafrost" in usage.stdout + usage.stderr


def test_a_terminal_gets_what_two_screens_have_room_for_and_the_beginning_of_what_has_none() -> None:
    console = SafeConsole(file=io.StringIO(), force_terminal=True, width=40, height=10)
    nine, eighteen = (partial(console.print, "\n".join(map(str, range(n)))) for n in (9, 18))
    assert len(console.output_that_fits([nine], "parts")) == 1
    shown, left_out = console.output_that_fits([nine, nine], "parts")
    assert (shown.splitlines()[-1], left_out.partition(";")[0]) == ("8", "(1 of 2 parts")
    (long,) = console.output_that_fits([eighteen], "parts")
    assert long.splitlines()[-2:] == ["15", "... and 2 more lines"]
