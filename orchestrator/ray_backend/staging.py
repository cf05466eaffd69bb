"""Copy the files of a trial to a node that does not have them, once per node.

A spec names files on the driver's node. A worker on another node requests them through Ray, in pieces, and stores them
in its node's cache under the digests of corpus and model: the first worker that needs them copies them, others wait.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.storage.storage import FolderStorage, Storage
from trials.cache.node_cache import existing_folder, node_folder
from trials.cache.set_up_work import note
from trials.datasets.corpus import SPLITS, fingerprint, planned_stamps
from trials.errors import DataError, ModelError, PermafrostError, reason
from trials.models.model_files import planned_files, revision_of
from trials.outside.plain_files import MOST_CONTENT, opened
from trials.plugins.loading import LoadedPlugins, digest_of, loaded
from trials.settings import DataSpec, ModelSpec
from trials.sources.cache import cache_root, discard, locked
from trials.spec import TrialSpec

KIND, PIECE_BYTES = "staged", 32 << 20
_DONE = "done"

Ask = Callable[..., Any]  # calls a function of this module on the driver's node


@dataclass(frozen=True)
class OriginFile:
    """A file on the driver's node.

    Attributes:
        name: Its name in the target folder.
    """

    name: str
    path: str
    n_bytes: int


def with_local_files(spec: TrialSpec, origin: str) -> TrialSpec:
    """The same trial with paths that are valid on this node.

    Args:
        spec: The trial as planned on the node `origin`.
        origin: Ray's id of that node.

    Raises:
        ConnectionError: that node does not answer.
        DataError, ModelError: its files are not those that were planned.
        OSError: there is no room for them here.
    """
    import ray

    if ray.get_runtime_context().get_node_id() == origin:
        return spec
    return staged(spec, asking(origin))


def staged(spec: TrialSpec, ask: Ask) -> TrialSpec:
    """The same trial with its files in this node's cache; missing ones are copied."""
    data, model = _corpus(spec.data, ask), _model(spec.model, ask)
    # Without validation, which would take longer than the rest: the spec is valid and only its paths change.
    return TrialSpec.model_construct(**{name: getattr(spec, name) for name in TrialSpec.model_fields} | {
        "data": data, "model": model
    })  # fmt: skip


def _corpus(data: DataSpec, ask: Ask) -> DataSpec:
    names = {
        split: [f"{split}-{n}{Path(path).suffix}" for n, path in enumerate(getattr(data, split))] for split in SPLITS
    }

    def here(folder: Path) -> dict[str, tuple[str, ...]]:
        return {split: tuple(str(folder / name) for name in names[split]) for split in SPLITS}

    def is_right(folder: Path) -> bool:
        with suppress(DataError):
            return fingerprint(**here(folder)) == data.fingerprint
        return False

    in_order = [name for split in SPLITS for name in names[split]]
    folder = cached(f"corpus-{data.fingerprint}", lambda: ask(corpus_files, data, in_order), is_right, ask)
    return data.model_copy(update=here(folder))


def _model(model: ModelSpec, ask: Ask) -> ModelSpec:
    def is_right(folder: Path) -> bool:
        with suppress(ModelError):
            return revision_of(folder, pickle=model.pickle) == model.revision
        return False

    folder = cached(f"model-{model.revision}", lambda: ask(model_files, model), is_right, ask)
    return model.model_copy(update={"path": str(folder)})


def cached(key: str, listed: Callable[[], list[OriginFile]], is_right: Callable[[Path], bool], ask: Ask) -> Path:
    """The cache folder of a key with its files; the first worker copies them."""
    if (folder := _complete(key)) and is_right(folder):
        return folder
    with locked(cache_root() / KIND / f".{key}.lock"):
        if folder := _complete(key):
            if is_right(folder):
                return folder
            note(f"cache: the files in {folder} are not those that were copied; they are copied anew.")
            discard(folder)
        files = listed()
        folder = node_folder(KIND, key, sum(file.n_bytes for file in files))
        for file in files:
            _copy(folder / file.name, file, ask)
        if not is_right(folder):
            raise ConnectionError(f"{key}: the files from the driver's node are not what was planned.")
        (folder / _DONE).touch()
    return folder


def _complete(key: str) -> Path | None:
    folder = existing_folder(KIND, key)
    if folder is None or not (folder / _DONE).exists():
        return None
    os.utime(folder)  # the least recently used folder is deleted first
    return folder


def _copy(target: Path, file: OriginFile, ask: Ask) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        for start in range(0, file.n_bytes, PIECE_BYTES):
            out.write(ask(piece, file.path, start))


# --- On the driver's node


def corpus_files(data: DataSpec, names: list[str]) -> list[OriginFile]:
    """The files of a corpus, under these names. Raises DataError if they are not those that were planned."""
    stamps = planned_stamps(data)
    paths = [path for split in SPLITS for path in getattr(data, split)]
    return [OriginFile(name, path, at.n_bytes) for name, path, at in zip(names, paths, stamps, strict=True)]


def model_files(model: ModelSpec) -> list[OriginFile]:
    """The relevant files of a model's folder. Raises ModelError if they are not those that were planned."""
    with planned_files(model) as stamps:
        return [OriginFile(name, str(Path(model.path) / name), at.n_bytes) for name, at in stamps.items()]


def piece(path: str, start: int) -> bytes:
    """The bytes of a file from an offset on, `PIECE_BYTES` at most. Raises OSError."""
    with opened(path, MOST_CONTENT) as file:
        file.seek(start)
        return file.read(PIECE_BYTES)


def asking(origin: str) -> Ask:
    """Calls functions on a node, in a Ray task."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(origin, soft=False)

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        task = ray.remote(function).options(num_cpus=0, scheduling_strategy=there, name=f"staging: {function.__name__}")
        try:
            return ray.get(task.remote(*arguments))
        except ray.exceptions.RayError as error:  # the node is gone or its disk did not answer: it may work later
            if isinstance(cause := getattr(error, "cause", None), PermafrostError):
                raise cause from None
            raise ConnectionError(f"the driver's node did not send what it was asked for: {reason(error)}") from error

    return ask


# Plug-ins on their way to workers: as files in each node's cache, under the digest of all of them.
#
# The driver puts them into its own node's cache when a sweep starts, so that editing a plug-in while the sweep runs
# changes none of its trials. Workers of other nodes copy them from there.


@dataclass(frozen=True)
class StagedPlugins:
    """What a worker needs to load the plug-ins of its driver.

    Attributes:
        names: The top-level packages and modules that the files are of.
        files: In the cache of the driver's node.
        digest: SHA-256 over the files.
    """

    modules: tuple[str, ...]
    names: tuple[str, ...]
    files: tuple[OriginFile, ...]
    digest: str

    def load(self, origin: str) -> None:
        """Import them in this worker; `origin` is Ray's id of the driver's node.

        Raises:
            ConfigError: A module cannot be imported here.
            ConnectionError: The driver's node does not send the files.
            OSError: There is no room for them here.
        """
        if self.modules:
            folder = str(self.here(asking(origin)))
            LoadedPlugins(self.modules, dict.fromkeys(self.names, folder)).load()

    def here(self, ask: Ask) -> Path:
        """The folder of this node's cache with the files; missing ones are copied."""
        names = [file.name for file in self.files]

        def is_right(folder: Path) -> bool:
            with suppress(OSError):
                return digest_of({name: folder / name for name in names}) == self.digest
            return False

        return cached(f"plugins-{self.digest}", lambda: list(self.files), is_right, ask)


def stage_plugins() -> StagedPlugins:
    """The plug-ins that are loaded here, with their files in this node's cache.

    Raises:
        ConfigError: They are too large, or something is registered that no other process can import.
        OSError: There is no room for them.
    """
    plugins = loaded()
    paths = plugins.files()
    files = tuple(OriginFile(name, str(path), path.stat().st_size) for name, path in sorted(paths.items()))
    staged = StagedPlugins(plugins.modules, tuple(plugins.folders), files, digest_of(paths))
    if not files:
        return staged
    folder = staged.here(lambda function, *arguments: function(*arguments))
    return replace(staged, files=tuple(replace(file, path=str(folder / file.name)) for file in files))


# Check that all nodes of a cluster share the store's folder; if one does not, its checkpoints exist on it alone.
#
# Rows are committed by the driver, so they need no shared folder. Checkpoints are written by workers on their own
# nodes: if the folder is not shared, they are lost with the node.

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
