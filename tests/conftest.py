"""What every test shares: the same examples for property tests each time, and a node's cache of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.examples import examples

# One thread a process: the tests have the cores already, and two threads that wait for each other wait for long where
# the machine has other work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A name that is no path is looked up: no test leaves the machine, and one that should not ask is refused at once.
os.environ["HF_ENDPOINT"] = os.environ["PERMAFROST_UD_URL"] = "http://127.0.0.1:9"
settings.register_profile("project", derandomize=True, deadline=None, max_examples=examples(50), database=None)
settings.load_profile("project")


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
