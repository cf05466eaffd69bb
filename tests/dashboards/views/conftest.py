"""Made-up stores that tests of views look at and never change."""

from __future__ import annotations

import pytest

from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import Select, pages_of

CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.02 if spec.freeze.depth > 2 else 0.001 * spec.freeze.depth))
FIVE = specs(seeds=range(5))


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Select:
    """Two train sizes, five freezes, three seeds."""
    return pages_of(tmp_path_factory.mktemp("usual") / "s")


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Select:
    """The same without noise."""
    return pages_of(tmp_path_factory.mktemp("quiet") / "s", Invented(noise=0.0))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Select:
    """One train size."""
    return pages_of(tmp_path_factory.mktemp("small") / "s", trials=specs(train_sizes=(200,)))


@pytest.fixture(scope="session")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Select:
    """Five seeds of clear losses: pages of a store compute an answer once."""
    return pages_of(tmp_path_factory.mktemp("clear") / "s", CLEAR, FIVE)
