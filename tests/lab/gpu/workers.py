"""Processes that share a card: each takes a job, waits for the others to be ready if asked to, and answers."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

Job = tuple[Callable[..., dict[str, Any]], Mapping[str, Any]]  # a function of a module, and its keyword arguments
CONTEXT_VARIABLE = "PERMAFROST_GPU_CONTEXT"


def context() -> BaseContext:
    """How processes are started here: forked from one that has imported torch, or spawned where that fails."""
    import multiprocessing

    return multiprocessing.get_context(os.environ.get(CONTEXT_VARIABLE, "spawn"))


class Workers:
    """Some processes; `run` gives them jobs."""

    def __init__(self, n: int) -> None:
        threads = max(1, len(os.sched_getaffinity(0)) // n)
        self._pipes: list[Connection] = []
        self._lifelines: list[Connection] = []
        self._processes = []
        for _ in range(n):
            ours, theirs = context().Pipe()
            end, lifeline = context().Pipe()
            process = context().Process(target=_serve, args=(theirs, lifeline, threads))  # type: ignore[attr-defined]
            process.start()
            theirs.close()
            lifeline.close()
            self._pipes.append(ours)
            self._lifelines.append(end)
            self._processes.append(process)

    def run(
        self,
        jobs: Sequence[Job],
        *,
        seconds: float,
        together: bool = False,
        on_report: Callable[[int, dict[str, Any]], None] = lambda i, figures: None,
    ) -> list[dict[str, Any] | None]:
        """The results in order; None for those that are not there after so many seconds, whose processes are ended.

        `together`: the jobs, no more than processes, call `start` and go on when all have.

        Raises:
            RuntimeError: a job raised an exception, or its process died.
        """
        results: list[dict[str, Any] | None] = [None] * len(jobs)
        waiting, busy, n_ready = list(range(len(jobs))), dict[Connection, int](), 0
        idle, deadline = list(self._pipes), time.monotonic() + seconds
        while (waiting or busy) and time.monotonic() < deadline:
            while waiting and idle:
                pipe, i = idle.pop(), waiting.pop(0)
                pipe.send((*jobs[i], together))
                busy[pipe] = i
            for pipe in _answering(busy, deadline - time.monotonic()):
                word, content = _received(pipe)
                if word == "report":
                    on_report(busy[pipe], content)
                elif word == "ready":
                    n_ready += 1
                else:
                    results[busy.pop(pipe)] = content
                    idle.append(pipe)
            if together and n_ready == len(jobs):
                for pipe in busy:
                    pipe.send("go")
                n_ready = 0
        if busy:
            self.end()
        return results

    def end(self) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


@contextmanager
def workers(n: int) -> Iterator[Workers]:
    """Processes that end with the block."""
    pool = Workers(n)
    try:
        yield pool
    finally:
        pool.end()


def _answering(busy: Mapping[Connection, int], timeout: float) -> list[Connection]:
    return [pipe for pipe in wait(list(busy), timeout=max(0.0, timeout)) if isinstance(pipe, Connection)]


def _received(pipe: Connection) -> tuple[str, Any]:
    try:
        word, content = pipe.recv()
    except EOFError:
        raise RuntimeError("a worker process died") from None
    if word == "error":
        raise RuntimeError(content)
    return word, content


def _serve(pipe: Connection, lifeline: Connection, threads: int) -> None:
    def end_with_parent() -> None:
        lifeline.poll(None)  # the other end is closed when the parent dies
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(min(threads, torch.get_num_threads()))
    while True:
        function, arguments, together = pipe.recv()

        def start() -> None:
            pipe.send(("ready", None))
            pipe.recv()

        if together:
            arguments["start"] = start
        elif "report" in function.__annotations__:
            arguments["report"] = lambda figures: pipe.send(("report", figures))
        try:
            pipe.send(("result", function(**arguments)))
        except Exception:
            pipe.send(("error", traceback.format_exc()))
