"""What goes wrong in a file of settings: values, keys, `--set`, and the text itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.lab.fuzz.odd_values import as_yaml, odd_value
from tests.lab.fuzz.right import BESIDE, CLUSTER, VALUES, Tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of everything in it."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inside):
        yield tree, key
        yield from _places(value)


UNKNOWN = (
    "optm",
    "lr",
    "trial",
    "seed",
    "optim.lr.x",
    "",
    ".",
    "..",
    "data.folder",
    "freeze.depth",
    "cases",
    "<<",
    "é",
    *BESIDE,
    *CLUSTER,
    "schedule",
    "racing",
    "goal",
    "search",
    "first",
    "objectives",
)
KNOWN = (
    "lora", "thaw_every", "optim.layer_decay", "score", "optim", "optim.embedding_updates", "data", "model", "freeze",
    "first", "columns", "data.first", "data.columns", "data.scheme", "data.format", "data.train", "data.ud",
    "data.release", "data.hub", "data.revision", "data.splits", "data.name", "lora.rank", "lora.targets",
    "model.folder", "model.hub", "model.revision", "model.allow_pickle", *VALUES,
)  # fmt: skip


def spoil(rng: random.Random, tree: Tree) -> None:
    """Make a value or a key odd, somewhere in it."""
    if not tree:  # all was taken away before
        tree[rng.choice(UNKNOWN)] = odd_value(rng)
        return
    container, key = rng.choice(list(_places(tree)))
    parts = [part for part in (tree, tree.get("trial"), tree.get("space"), container) if isinstance(part, dict)]
    match rng.randint(0, 9):
        case 0 | 1 | 2 | 3:
            container[key] = odd_value(rng)
        case 4:
            del container[key]
        case 5:
            container[key] = rng.choice(([container[key]], {"value": container[key]}, str(container[key]), None))
        case 6:
            rng.choice(parts)[rng.choice(UNKNOWN)] = odd_value(rng)
        case 7 | 8:
            target = rng.choice(parts)
            value = odd_value(rng)
            target[rng.choice(KNOWN)] = [value] if target is tree.get("space") and rng.random() < 0.8 else value
        case 9:
            cases = [{rng.choice(KNOWN): odd_value(rng)} for _ in range(rng.randint(1, 3))]
            tree["space"] = {"cases": cases} | (tree["space"] if isinstance(tree.get("space"), dict) else {})


def setting(rng: random.Random) -> str:
    """What may stand after `--set`."""
    keys = ("seeds", "name", "name.x", "trial", "space", "space.freeze", "resources.gpus", "", ".", "a..b")
    whole = (
        "search",
        "search.kind",
        "search.cells",
        "search.objectives",
        "schedule",
        "schedule.first",
        "schedule.kind",
    )
    others = (
        "schedule.kind",
        "racing",
        "goal.choose_depth.tolerance",
        "goal",
        "checkpoint.minutes",
        "limits.alike",
        "watch.log",
    )
    beside = (*keys, *whole, *others)
    key = rng.choice((*beside, *(f"trial.{known}" for known in KNOWN), *(f"space.{known}" for known in KNOWN)))
    return f"{key}{rng.choice(('=', '=', '=', '=', '', '=='))}{as_yaml(odd_value(rng))}"


def text(rng: random.Random, tree: Tree) -> str:
    """A line a key, and for mappings sometimes a line a key of theirs."""
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict) and value and rng.random() < 0.5:
            lines += [f"{as_yaml(key)}:", *(f"  {as_yaml(k)}: {as_yaml(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key or as_yaml(key)}: {as_yaml(value)}")
    return "\n".join(lines) + "\n"


BYTES = (
    b"\t", b"\0", b"\r", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"- ", b": ", b"&a ", b"*a", b"<<: *a",
    b"---\n", b"...\n", b"%YAML 1.1\n", b"# ", b"|", b">", b"!!", b"'", b'"', b"[", b"}", b"@", b"`", b"?",
)  # fmt: skip


def edited(rng: random.Random, content: bytes) -> bytes:
    """The text with some of its bytes or lines out of place."""
    for _ in range(rng.randint(1, 3)):
        at, lines = rng.randrange(len(content) + 1), content.split(b"\n")
        n = rng.randrange(len(lines))
        match rng.randint(0, 8):
            case 0 | 1:
                content = content[:at] + rng.choice(BYTES) + content[at:]
            case 2:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case 3:
                content = content[:at]
            case 4:
                content = b"\n".join([*lines[: n + 1], *lines[n:]])
            case 5:
                content = b"\n".join([*lines[:n], *lines[n + 1 :]])
            case 6:
                content = content.replace(b"\n", b"\r\n")
            case 7:
                content = content.replace(b"  ", b"\t")
            case 8:
                content = rng.choice(
                    (content.decode("utf-8", "replace").encode("utf-16"), b"\xef\xbb\xbf" + content, b"")
                )
    return content
