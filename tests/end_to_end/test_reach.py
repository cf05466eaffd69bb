"""A Ray of three nodes, one of which has another folder where the others share the store's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import Nodes, namespaces_allowed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not namespaces_allowed(), reason="this user may not make network namespaces"),
]

ASK = """
import sys
from pathlib import Path
from orchestrator.ray_backend.cluster import own_cluster
from orchestrator.ray_backend.shared_folder import unshared_note
from orchestrator.storage.storage import FolderStorage
with own_cluster():
    for folder in sys.argv[1:]:
        print(unshared_note(FolderStorage(Path(folder))))
"""
BLIND = 1


class OneBlind(Nodes):
    """Node 1 has an empty folder of its own where the store lies."""

    def _enter(self, node: int) -> list[str]:
        words = super()._enter(node)
        if node != BLIND:
            return words
        hide = f'mount -t tmpfs tmpfs {self._folder}/store && exec "$@"'
        return [*words, "unshare", "--mount", "sh", "-c", hide, "sh"]


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with tempfile.TemporaryDirectory(prefix="pf-") as name:
        for folder in ("store", "shared"):
            (Path(name) / folder).mkdir()
        with OneBlind(Path(name)) as cluster:
            yield cluster


def test_only_the_node_that_does_not_see_the_stores_folder_is_named(nodes: Nodes) -> None:
    folder = nodes.driver_folder.parent
    words = [*nodes.prefix, sys.executable, "-W", "ignore", "-c", ASK, str(folder / "store"), str(folder / "shared")]
    done = subprocess.run(
        words, cwd=nodes.driver_folder, env=nodes.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    unshared, shared = done.stdout.splitlines()[-2:]
    assert f"(of 2 other nodes) does not see {folder / 'store'}" in unshared
    assert shared == "None"
    assert list((folder / "store").iterdir()) == []
