"""What every test shares: the same examples for property tests each time, a cache and a working folder of its own."""

from __future__ import annotations

import atexit
import gc
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import WORKING, examples

# One thread a process: the tests have the cores already, and two threads that wait for each other wait for long where
# the machine has other work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A name that is no path is looked up: no test leaves the machine, and one that should not ask is refused at once.
os.environ["HF_ENDPOINT"] = os.environ["PERMAFROST_UD_URL"] = "http://127.0.0.1:9"
for switch in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):  # tests have a hub, on loopback
    os.environ.pop(switch, None)
# What is imported while tests are collected stays to the end: looking for garbage in it, now and in each test, took an
# eighth of the CPU time.
gc.disable()
settings.register_profile("project", derandomize=True, deadline=None, max_examples=examples(50), database=None)
settings.load_profile("project")
CHECKOUT = Path(__file__).parents[1]


@cache
def without_their_extra() -> frozenset[Path]:
    """The files of tests that need an extra which was deleted (`orchestrator/extras`), or a file that does."""
    there = {folder.name for folder in (CHECKOUT / "orchestrator" / "extras").glob("*")}
    texts = {path: path.read_text(encoding="utf-8") for path in (CHECKOUT / "tests").rglob("*.py")}
    gone = {p for p, text in texts.items() if set(re.findall(r"orchestrator\.extras\.(\w+)", text)) - there}
    while True:
        names = {".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in gone}
        more = {p for p, text in texts.items() if names & set(re.findall(r"^from (tests[\w.]*)", text, re.MULTILINE))}
        if more <= gone:
            return frozenset(gone)
        gone |= more


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Whether a file tests what was deleted; None: pytest decides."""
    return collection_path in without_their_extra() or None


def pytest_collection_finish() -> None:
    """Everything is imported."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # extensions may be ended in order, once pytest has looked for garbage a last time


@pytest.fixture(scope="session", autouse=True)
def node_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Downloads, tokens and prefixes of the tests go to a folder that is thrown away, in their processes too."""
    before = os.environ.get("PERMAFROST_CACHE")
    os.environ["PERMAFROST_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["PERMAFROST_CACHE"]
    else:
        os.environ["PERMAFROST_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where fixtures of a session or module work: not in the checkout, which stays as it was."""
    before, there = Path.cwd(), set(_entries(CHECKOUT))
    folder = tmp_path_factory.mktemp("outside")
    os.chdir(folder)
    yield folder
    os.chdir(before)
    left = sorted(set(_entries(CHECKOUT)) - there)
    assert not left, f"a test has left {', '.join(left)} in {CHECKOUT}; let it write to tmp_path or its working folder."


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Variables that a test, or a command that it ran here, has set end with it: the tests of a process share one."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in before.items() if os.environ.get(name) != value})


@pytest.fixture(autouse=True)
def working_folder(outside: Path) -> Iterator[Path]:
    """The working folder of a test: empty, so that nothing depends on what lies where pytest was started."""
    folder = Path(tempfile.mkdtemp(prefix=WORKING, dir=outside))
    os.chdir(folder)
    yield folder
    os.chdir(outside)


def _entries(folder: Path) -> list[str]:
    """What lies in a folder, without what tools put there: hidden caches and compiled modules."""
    return [path.name for path in folder.iterdir() if not path.name.startswith((".", "__"))]
