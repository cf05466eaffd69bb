"""Check that all nodes of a cluster share the store's folder; if one does not, its checkpoints exist on it alone.

Rows are committed by the driver, so they need no shared folder. Checkpoints are written by workers on their own
nodes: if the folder is not shared, they are lost with the node.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.storage.storage import FolderStorage, Storage

PROBE_S = 15.0  # starting a node's first worker takes seconds
MOST_PROBED = 8  # nodes of one cluster have the same mounts


def unshared_note(store: Storage) -> str | None:
    """A note for the launch if nodes of the connected cluster do not see the store's folder; else None.

    One node on each other host looks for a file that this one writes there. A node that does not answer in time is
    assumed to see it.
    """
    if not isinstance(store, FolderStorage):
        return None
    import ray

    others = elsewhere(ray.nodes(), ray.get_runtime_context().get_node_id())
    blind = _blind(store.folder, others[:MOST_PROBED]) if others else []
    return unshared_folder_note(store.folder, blind, among=len(others)) if blind else None


def elsewhere(nodes: Sequence[Mapping[str, Any]], here: str) -> list[tuple[str, str]]:
    """Id and name of one live node on each host except the driver's, from Ray's list of nodes."""
    by_host: dict[tuple[str, str], tuple[str, str]] = {}
    mine = None
    for node in nodes:
        host, address = str(node["NodeManagerHostname"]), str(node["NodeManagerAddress"])
        if node["NodeID"] == here:
            mine = (host, address)
        if node["Alive"]:
            by_host.setdefault((host, address), (str(node["NodeID"]), f"{host} ({address})"))
    return [node for key, node in by_host.items() if key != mine]


def unshared_folder_note(folder: Path, blind: Sequence[str], *, among: int) -> str:
    """The note that these nodes, by name, do not see a folder."""
    more = f" and {len(blind) - 1} more" if len(blind) > 1 else ""
    verb = "do" if len(blind) > 1 else "does"
    of = f" (of {among} other nodes)" if among > len(blind) else ""
    return (
        f"{blind[0]}{more}{of} {verb} not see {folder}: checkpoints of trials stay on the node that wrote them, so a "
        "trial whose node is lost starts again. A store in s3:// or in a folder that all nodes share avoids it."
    )


def holds(path: str, content: str) -> bool:
    """Whether a file exists and has this content; runs on the probed node."""
    for wait_s in (0.0, 1.0):  # a network file system may show a new file a moment later
        time.sleep(wait_s)
        with suppress(OSError):
            if Path(path).read_bytes() == content.encode():
                return True
    return False


def _blind(folder: Path, nodes: Sequence[tuple[str, str]]) -> list[str]:
    """The names of the nodes that do not see a file which is written into a folder now."""
    content = secrets.token_hex(16)
    probe = (
        folder / f".reach.{content[:8]}.tmp"
    )  # a temporary file, so that one of a killed driver is deleted by `store gc`
    try:
        probe.write_text(content, encoding="ascii")
        return _denied(nodes, str(probe), content)
    except OSError:  # the recorder will report it
        return []
    finally:
        with suppress(OSError):
            probe.unlink()


def _denied(nodes: Sequence[tuple[str, str]], path: str, content: str) -> list[str]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def ask(node_id: str) -> Any:
        there = NodeAffinitySchedulingStrategy(node_id, soft=False)
        task = ray.remote(holds).options(num_cpus=0, max_retries=0, scheduling_strategy=there, name="reach")
        return task.remote(path, content)

    asked = {ask(node_id): name for node_id, name in nodes}
    answered, late = ray.wait(list(asked), num_returns=len(asked), timeout=PROBE_S)
    for ref in late:
        ray.cancel(ref, force=True)
    denied = []
    for ref in answered:
        with suppress(ray.exceptions.RayError):  # the node is gone by now
            if ray.get(ref) is False:
                denied.append(asked[ref])
    return denied
