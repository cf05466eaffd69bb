"""What is sent with a submitted sweep: its file, the local data and models that it names, and our own code."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from orchestrator.config.yaml_document import Document
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError

MOST_BYTES = 400 << 20  # Ray refuses packages above 500 MiB
CLUSTER_FILE = "cluster.yaml"
_LEFT_TO_THE_CLUSTER = {"ray", "permafrost-sweeps"}  # Ray is installed on the nodes, and our code is sent


def package_sweep(folder: Path, document: Document, spec: ClusterSpec, here: Path) -> str:
    """Write the files that a job needs into its working directory; the name of the sweep's file there.

    Args:
        folder: The working directory, empty.
        document: The sweep's file with its overrides.
        spec: The cluster, which the job will join from inside.
        here: The folder that relative paths refer to; they are the same in `folder`.

    Raises:
        ConfigError: local files are outside of `here`, or too large to be sent.
    """
    found = sorted(set(_local_paths({key: document.content.get(key) for key in ("trial", "space")}, here)))
    n_bytes = sum(one.stat().st_size for path in found for one in _files(path))
    if n_bytes > MOST_BYTES:
        raise ConfigError(
            f"{document.path}: names {n_bytes >> 20:,} MiB of local files, and at most {MOST_BYTES >> 20} are sent. "
            "Put them where the cluster's nodes can read them and name that absolute path, or use a hub's dataset.",
            exit_code=3,
        )
    for path in found:
        target = folder / path.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copy2(path, target)
    name = f"{document.path.stem}.sweep.yaml"
    (folder / name).write_text(yaml.safe_dump(document.content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    there = spec.model_copy(update={"address": "auto"}).model_dump(mode="json", exclude_unset=True)
    (folder / CLUSTER_FILE).write_text(yaml.safe_dump(there | {"address": "auto"}), encoding="utf-8")
    return name


def _local_paths(value: Any, here: Path) -> Iterator[Path]:
    """Existing paths that occur anywhere inside a value. Raises ConfigError: one is outside of `here`."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _local_paths(inner, here)
    if not isinstance(value, str) or not (path := _existing(value, here)):
        return
    if not path.is_relative_to(here):
        raise ConfigError(
            f"{value}: lies outside of {here}, so it is not sent. Launch from a folder that contains it and use a "
            "path relative to that.",
            exit_code=3,
        )
    if path != here:
        yield path


def _existing(text: str, here: Path) -> Path | None:
    try:
        path = (here / Path(text).expanduser()).resolve()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, an unknown user's home, a zero byte
        return None


def _files(path: Path) -> list[Path]:
    return [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]


def our_modules() -> list[str]:
    """The folders of our packages, which a driver and its workers run."""
    import orchestrator
    import trials

    return [str(Path(str(module.__file__)).parent) for module in (orchestrator, trials)]


def pinned_packages() -> list[str]:
    """`name==version` of everything that this project requires, as installed here, except Ray."""
    found: dict[str, str] = {}
    waiting = ["permafrost-sweeps"]
    while waiting:
        try:
            distribution = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # required on other systems only
        name = distribution.metadata["Name"].lower()
        if name in found:
            continue
        found[name] = distribution.version
        wanted = map(Requirement, distribution.requires or ())
        waiting += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name not in _LEFT_TO_THE_CLUSTER]
