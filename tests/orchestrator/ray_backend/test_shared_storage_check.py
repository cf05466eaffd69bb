"""Which nodes are asked whether they see the store's folder, and what is said of those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.ray_backend.staging import elsewhere, holds, unshared_folder_note


def node(name: str, host: str, address: str, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "NodeManagerHostname": host, "NodeManagerAddress": address, "Alive": alive}


def test_one_live_node_of_each_other_host_is_asked() -> None:
    nodes = [
        node("me", "head", "10.0.0.1"), node("beside", "head", "10.0.0.1"), node("gone", "a", "10.0.0.2", alive=False),
        node("b1", "b", "10.0.0.3"), node("b2", "b", "10.0.0.3"), node("c", "b", "10.0.0.4"),
    ]  # fmt: skip
    assert elsewhere(nodes, "me") == [("b1", "b (10.0.0.3)"), ("c", "b (10.0.0.4)")]


def test_a_cluster_of_one_host_has_nobody_to_ask() -> None:
    assert elsewhere([node("me", "head", "10.0.0.1"), node("beside", "head", "10.0.0.1")], "me") == []


def test_the_note_says_who_what_follows_and_the_way_out() -> None:
    said = unshared_folder_note(Path("/results"), ["b (10.0.0.3)"], among=3)
    assert said == (
        "b (10.0.0.3) (of 3 other nodes) does not see /results: checkpoints of trials stay on the node that wrote "
        "them, so a trial whose node is lost starts again. A store in s3:// or in a folder that all nodes share avoids "
        "it."
    )


@pytest.mark.parametrize(
    ("blind", "among", "begins"),
    [(1, 1, "b0 does not"), (2, 2, "b0 and 1 more do not"), (3, 9, "b0 and 2 more (of 9 other nodes) do not")],
)
def test_the_note_counts_the_nodes(blind: int, among: int, begins: str) -> None:
    assert unshared_folder_note(Path("/r"), [f"b{n}" for n in range(blind)], among=among).startswith(begins)


def test_a_node_sees_a_file_only_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text("right")
    assert holds(str(tmp_path / "probe"), "right")
    assert not holds(str(tmp_path / "probe"), "another sweep's")
    assert not holds(str(tmp_path / "absent"), "right")
