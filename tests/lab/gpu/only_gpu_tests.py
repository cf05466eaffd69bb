"""A pytest plugin that keeps the tests which need a GPU."""

from __future__ import annotations

import pytest

from tests.lab.gpu.parts.gpu_tests import REASON


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = [item for item in items if any(m.kwargs.get("reason") == REASON for m in item.iter_markers("skipif"))]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted
