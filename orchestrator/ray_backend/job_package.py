"""What goes with a job to a remote cluster: the sweep's file, the local data and models that it names, plug-ins."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from orchestrator.config.yaml_document import Document
from orchestrator.deploy.requirements import requirements
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.named_paths import each_path, existing
from trials.errors import ConfigError, RefusedError
from trials.outside.plain_files import digest_of
from trials.plugins.loading import loaded

MOST_BYTES = 400 << 20  # Ray refuses packages above 500 MiB
CLUSTER_FILE = "cluster.yaml"


def package_sweep(folder: Path, document: Document, spec: ClusterSpec, here: Path) -> str:
    """Write the files that a job needs into its working directory; the name of the sweep's file there.

    Args:
        folder: The working directory, empty.
        here: The folder that relative paths refer to; they are the same in `folder`.

    Raises:
        ConfigError: local files are outside of `here`, or too large to be sent.
        RefusedError: a link in a corpus or model leads out of its folder.
    """
    files = {file for path in _local_paths(document, here) for file in _files(path)}
    n_bytes = sum(file.stat().st_size for file in files)
    if n_bytes > MOST_BYTES:
        raise ConfigError(
            f"{document.path}: names {n_bytes >> 20:,} MiB of local files, and at most {MOST_BYTES >> 20} are sent. "
            "Put them where the cluster's nodes can read them and name that absolute path, or use a hub's dataset.",
            exit_code=3,
        )
    for file in files:
        target = folder / file.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    name = f"{document.path.stem}.sweep.yaml"
    content = {key: value for key, value in document.content.items() if key != "plugins"}  # see `package_plugins`
    (folder / name).write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    there = spec.model_copy(update={"address": "auto"}).model_dump(mode="json", exclude_unset=True)
    (folder / CLUSTER_FILE).write_text(yaml.safe_dump(there | {"address": "auto"}), encoding="utf-8")
    return name


def _local_paths(document: Document, here: Path) -> Iterator[Path]:
    """Existing paths that a sweep names. Raises ConfigError: one is outside of `here`."""
    candidates: list[str] = []

    def note(word: str, _: object) -> str:
        candidates.append(word)
        return word

    each_path({key: document.content.get(key) for key in ("trial", "space")}, note)
    for word in candidates:
        path = existing(word, here)
        if path is not None and not (path.is_relative_to(here) and path.resolve().is_relative_to(here)):
            raise ConfigError(
                f"{word}: lies outside of {here}, so it is not sent. Launch from a folder that contains it and use a "
                "path relative to that.",
                exit_code=3,
            )
        if path not in (None, here):
            yield path


def _files(path: Path) -> Iterator[Path]:
    """The file, or the files below the folder. Raises RefusedError: a link in it leads elsewhere."""
    if path.is_file():
        yield path
    for parent, folders, names in os.walk(path):
        for entry in (Path(parent) / name for name in (*folders, *names)):
            if entry.is_symlink() and not (entry.is_file() and entry.resolve().is_relative_to(path.resolve())):
                raise RefusedError(
                    f"{entry}: a link to {entry.readlink()}. Only links to files in {path} are sent; put the file "
                    "there."
                )
            if entry.is_file():
                yield entry


def package_plugins(folder: Path) -> list[str]:
    """Write the files of all plug-ins that are loaded here into a job's working directory; the options that load them.

    Raises:
        ConfigError: They are too large, or one has the name of a file that the sweep names.
    """
    plugins = loaded()
    for name, path in plugins.files().items():
        target = folder / name
        if target.exists() and digest_of(target) != digest_of(path):
            raise ConfigError(f"{path}: a plug-in's file has the name of another that the sweep names. Rename it.")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return [word for module in plugins.modules for word in ("--plugin", module)]


def our_modules() -> list[str]:
    """The folders of our packages, which a driver and its workers run."""
    import orchestrator
    import trials

    return [str(Path(str(module.__file__)).parent) for module in (orchestrator, trials)]


def pinned_packages() -> list[str]:
    """`name==version` of everything that this project requires, as installed here, except Ray."""
    versions: dict[str, str] = {}
    waiting = _names(requirements())
    while waiting:
        try:
            distribution = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # required on other systems only
        name = distribution.metadata["Name"].lower()
        if name in versions:
            continue
        versions[name] = distribution.version
        waiting += _names(distribution.requires or ())
    return [f"{name}=={version}" for name, version in sorted(versions.items()) if name != "ray"]  # the nodes have it


def _names(wanted: Iterable[str]) -> list[str]:
    """The names of the requirements that always apply."""
    found = map(Requirement, wanted)
    return [each.name for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]
