"""Copy the files of a trial to a node that does not have them, once per node.

A spec names files on the driver's node. A worker on another node requests them through Ray, in pieces, and stores them
in its node's cache under the digests of corpus and model: the first worker that needs them copies them, others wait.
`corpus_files`, `model_files` and `piece` run on the driver's node.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.cache.node_cache import existing_folder, node_folder
from trials.cache.set_up_work import note
from trials.datasets.corpus import SPLITS, fingerprint, planned_stamps
from trials.errors import DataError, ModelError, PermafrostError, reason
from trials.models.model_files import planned_files, revision_of
from trials.outside.plain_files import MOST_CONTENT, opened
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
