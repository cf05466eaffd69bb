"""What workers of a cluster need of the driver's node: corpora, models and plug-ins, as Ray's `working_dir`.

The driver links them into a folder before it connects. Ray copies that to each node once, and it is the working folder
of every worker there. What is too large for Ray lies in a folder that all nodes share, or is a model of the hub, which
each node fetches.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from orchestrator.config.quantities import size
from trials.corpora.corpus import SPLITS, planned_stamps
from trials.errors import ModelError
from trials.models.model_files import planned_files
from trials.outside.plain_files import path_inside
from trials.plugins.loading import LoadedPlugins, loaded_plugins
from trials.sources.places.model_draft import find_model, named_model
from trials.spec import DataSpec, ModelSpec, TrialSpec

MOST_BYTES = 400 << 20  # Ray refuses more than 500 MiB
WRITTEN_S = 20.0  # the most that Ray needs to write them on a node


def stage(folder: Path, specs: Iterable[TrialSpec], say: Callable[[str], None]) -> LoadedPlugins:
    """Put plug-ins, and the files of trials as far as there is room, into an empty folder; the plug-ins for workers.

    Raises:
        ConfigError: The plug-ins are too large, or something is registered that no other process can import.
        DataError, ModelError: Files are not those that were planned.
    """
    plugins, specs = loaded_plugins(), tuple(specs)
    files = plugins.files()
    _link(folder, files)
    room = MOST_BYTES - sum(path.stat().st_size for path in files.values())
    parts = [_corpus_files(data) for data in {spec.data.fingerprint: spec.data for spec in specs}.values()]
    parts += [_model_files(model) for model in {spec.model.revision: spec.model for spec in specs}.values()]
    for n_bytes, whole, files in sorted(parts, key=lambda part: part[0]):
        room -= n_bytes
        if room >= 0:
            _link(folder, files)
        else:
            say(f"note    {whole}: {size(n_bytes)} are too much to send; each node needs a copy there, or the hub")
    return LoadedPlugins(plugins.modules, dict.fromkeys(plugins.folders, "."))


def enter_again() -> None:
    """Make a worker's working folder its current one again.

    Ray deletes that folder and writes it anew where a node joins that shares it, as those of one machine do.

    Raises:
        OSError: It has not come back in `WRITTEN_S`; ESTALE, so that the trial runs again.
    """
    folder, until = str(Path("/proc/self/cwd").readlink()).removesuffix(" (deleted)"), time.monotonic() + WRITTEN_S
    while not Path(folder).is_dir():
        if time.monotonic() > until:
            raise OSError(errno.ESTALE, "Ray has not written the working folder anew", folder)
        time.sleep(0.1)
    os.chdir(folder)


def load_staged(plugins: LoadedPlugins) -> None:
    """Import plug-ins in a worker, whose working folder has them. Raises ConfigError."""
    LoadedPlugins(plugins.modules, dict.fromkeys(plugins.folders, str(Path.cwd()))).load()


def with_local_files(spec: TrialSpec) -> TrialSpec:
    """The same trial with paths that are valid on this node; whoever reads the files compares them with the plan.

    Raises:
        ModelError: The model is neither here nor on the hub.
    """
    data, model = spec.data, spec.model
    if (corpus := Path(_corpus_folder(data)).absolute()).is_dir():
        data = data.model_copy(
            update={split: tuple(str(corpus / name) for name in _names(data, split)) for split in SPLITS}
        )
    if (staged := Path(_model_folder(model)).absolute()).is_dir():
        model = model.model_copy(update={"path": str(staged)})
    elif not Path(model.path).is_dir():
        if not (model.source or "").startswith("hub:"):
            raise ModelError(f"{model.path}: is not on this node. Put the model into a folder that all nodes share.")
        draft = named_model(str(model.source)).model_copy(update={"allow_pickle": model.pickle})
        model = model.model_copy(update={"path": find_model(draft).path})
    # Without validation, which would take longer than the rest: the spec is valid and only its paths change.
    fields = {name: getattr(spec, name) for name in TrialSpec.model_fields}
    return TrialSpec.model_construct(**fields | {"data": data, "model": model})


def _corpus_files(data: DataSpec) -> tuple[int, str, dict[str, Path]]:
    n_bytes = sum(stamp.n_bytes for stamp in planned_stamps(data))
    pairs = [pair for split in SPLITS for pair in zip(_names(data, split), getattr(data, split), strict=True)]
    return n_bytes, data.train[0], {f"{_corpus_folder(data)}/{name}": Path(path).absolute() for name, path in pairs}


def _model_files(model: ModelSpec) -> tuple[int, str, dict[str, Path]]:
    with planned_files(model) as stamps:
        files = {f"{_model_folder(model)}/{name}": Path(model.path).absolute() / name for name in stamps}
        return sum(stamp.n_bytes for stamp in stamps.values()), model.path, files


def _corpus_folder(data: DataSpec) -> str:
    return f"corpus-{data.fingerprint}"


def _model_folder(model: ModelSpec) -> str:
    return f"model-{model.revision}"


def _names(data: DataSpec, split: str) -> list[str]:
    return [f"{split}-{n}{Path(path).suffix}" for n, path in enumerate(getattr(data, split))]


def _link(folder: Path, files: dict[str, Path]) -> None:
    for name, path in files.items():
        link = path_inside(folder, *name.split("/"))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
