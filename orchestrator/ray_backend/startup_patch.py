"""A patch of Ray's start on one machine, which does one after the other what can be done at the same time.

`ray.init` (Ray 2.60) starts its dashboard and waits 1.5 s for it, then starts the node and waits 2 s for that. Here the
node starts beside the dashboard, and the driver's modules are imported meanwhile. There is no autoscaler, which has
nothing to do on one machine and takes a second to stop. And Tune asks for environment variables in its workers, which
makes Ray discard the workers that it has just started for new ones; on one machine workers inherit the driver's
environment anyway. Nor does Tune import MLflow and W&B, 1.7 s where they are installed, to count for Ray's usage
statistics, which are off, whether a callback is theirs.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private.node import Node
from ray._private.utils import get_dashboard_dependency_error

from orchestrator.execution.events import last_line


@contextmanager
def starting_at_once() -> Iterator[Callable[[], str]]:
    """In the block, which a cluster must not outlive, `ray.init` starts its processes at the same time.

    Yields a function that waits for the dashboard, and returns why there is none, or nothing.
    """
    originals = Node.start_api_server, Node.start_ray_processes, Node.start_monitor
    start_api_server, start_ray_processes, _ = originals
    answers, is_over = threading.Event(), threading.Event()
    answers.set()
    reasons = list[str]()
    logging.getLogger("ray._private.services").addFilter(_is_no_error)  # twenty lines of the dashboard's log

    def start_in_background(node: Any, **options: Any) -> None:
        def start() -> None:
            try:
                start_api_server(node, **options | {"raise_on_failure": True})
            except Exception as error:  # a sweep can do without
                reasons.append(last_line(str(error)))
            finally:
                answers.set()
            is_over.wait()  # Linux kills the dashboard when the thread that started it ends

        get_dashboard_dependency_error()  # imports modules, which two threads should not do at a time
        answers.clear()
        threading.Thread(target=start, name="dashboard", daemon=True).start()

    def start_and_import(node: Any) -> None:
        start_ray_processes(node)
        importlib.import_module("orchestrator.ray_backend.driver")

    Node.start_api_server, Node.start_ray_processes = start_in_background, start_and_import
    Node.start_monitor = lambda node: None

    def wait() -> str:
        answers.wait()
        return "".join(reasons)

    try:
        yield wait
    finally:
        logging.getLogger("ray._private.services").removeFilter(_is_no_error)
        Node.start_api_server, Node.start_ray_processes, Node.start_monitor = originals
        is_over.set()


def _is_no_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


def use_started_workers() -> None:
    """From now on Tune's actors need no environment of their own, so that they run in the workers that Ray has."""
    from ray.air._internal import usage
    from ray.tune.execution import class_cache

    usage.tag_callbacks = lambda callbacks: None
    class_cache.DEFAULT_ENV_VARS.clear()
    class_cache.ENV_VARS_TO_PROPAGATE.clear()
