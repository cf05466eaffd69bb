"""Load plug-ins: modules by other people that register something in a registry when they are imported.

An installed package announces its module by an entry point in the group `permafrost.plugins`. Modules without a package
are named under `plugins:` in a sweep file or by the option `--plugin`. Code that runs trials in another process sends
`loaded_plugins()` there, as a value or as files (`orchestrator.ray_engine.staging`), and calls `LoadedPlugins.load`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb

from trials.errors import ConfigError, reason
from trials.outside.plain_files import digest_of
from trials.plugins.import_origins import OURS, pin, place_of
from trials.plugins.registry import outside_modules

GROUP = "permafrost.plugins"
MOST_BYTES = 64 << 20  # for the files of all plug-ins together: code, and perhaps a table or two
_SKIPPED = {"__pycache__", ".git"}

_loaded: dict[str, None] = {}


@dataclass(frozen=True)
class LoadedPlugins:
    """The modules of plug-ins, and the folders that they are imported from.

    Attributes:
        folders: Folder by top-level name, of the plug-ins and of the modules beside them that they use.
    """

    modules: tuple[str, ...]
    folders: dict[str, str]

    def load(self) -> None:
        """Import the modules in this process. Raises ConfigError: one comes from another folder or fails to import."""
        for name, folder in self.folders.items():
            _pin(name, folder, name)
        for module in self.modules:
            _import(module, module)

    def to_json(self) -> str:
        """The plug-ins as text, to be passed as an argument to another process on this machine."""
        return json.dumps([self.modules, self.folders])

    @classmethod
    def of_json(cls, text: str) -> LoadedPlugins:
        """The plug-ins in text that `to_json` wrote."""
        modules, folders = json.loads(text)
        return cls(tuple(modules), folders)

    def files(self) -> dict[str, Path]:
        """Every file of the plug-ins, by its path below one common folder.

        Raises:
            ConfigError: The files are larger than `MOST_BYTES` together.
        """
        files = {
            path.relative_to(folder).as_posix(): path
            for name, folder in self.folders.items()
            for path in _files_of(name, Path(folder))
        }
        if (n_bytes := sum(path.stat().st_size for path in files.values())) > MOST_BYTES:
            raise ConfigError(
                f"plug-ins {', '.join(self.modules)}: {n_bytes >> 20:,} MiB of files, and at most {MOST_BYTES >> 20} "
                "are sent to workers. Keep data out of the folder of the module."
            )
        return files


@cache
def load_installed() -> tuple[str, ...]:
    """Load the plug-ins of all installed packages once; return a line for each that fails, as one stops no other."""
    problems = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
        try:
            _import(point.module, f"plug-in {point.name!r}{package}")
            _loaded[point.module] = None
        except ConfigError as error:
            problems.append(str(error))
    return tuple(problems)


def load(modules: Iterable[str], beside: Sequence[Path] = (), where: str = "plugins") -> None:
    """Load plug-ins by module name.

    Args:
        beside: Folders that are searched before Python's own.
        where: The key or option that names them, for errors.

    Raises:
        ConfigError: A module does not exist, cannot be imported, or has a name that is taken.
    """
    load_installed()
    for name in modules:
        top = name.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names:
            owner = "Permafrost" if top in OURS else "Python"
            raise ConfigError(f"{where}: {name}: {owner} has a module of this name. Rename yours.")
        folders = [str(folder.resolve()) for folder in beside]
        folder = next((folder for folder in folders if PathFinder.find_spec(top, [folder])), None)
        if folder is not None:
            _pin(top, folder, f"{where}: {name}")
            if folder not in sys.path:
                sys.path.append(folder)  # last, for the modules beside a plug-in that it imports
        _import(name, f"{where}: {name}")
        _loaded[name] = None


def loaded_plugins() -> LoadedPlugins:
    """The plug-ins of this process: modules that were named, and all others that registered something.

    Raises:
        ConfigError: Something was registered by a script or a notebook, which no other process can import.
    """
    modules = list(dict.fromkeys([*_loaded, *outside_modules()]))
    if "__main__" in modules:
        raise ConfigError(
            "a strategy, task, metric or statistic is registered in this script or notebook, which workers "
            "cannot import. Write it into a module and load that (`plugins: [module]`), or use --cluster inline."
        )
    folders = {top: folder for module in modules for top, folder in _places(module)}
    return LoadedPlugins(tuple(modules), folders)


def source_digests() -> dict[str, str]:
    """The SHA-256 of each plug-in's files, by module; scripts and notebooks that register something are left out."""
    digests: dict[str, str] = {}
    for module in dict.fromkeys([*_loaded, *outside_modules()]):
        total = hashlib.sha256()
        files = LoadedPlugins((module,), dict(_places(module))).files()
        for name, path in sorted(files.items()):
            total.update(f"{name}\0{digest_of(path, MOST_BYTES).hex()}\n".encode())
        digests |= {module: total.hexdigest()} if files else {}
    return digests


def _places(module: str) -> Iterator[tuple[str, str]]:
    """The top-level name of a module with its folder; unless that folder holds installed packages, the names of all
    other modules that were loaded from it follow.
    """
    top = module.partition(".")[0]
    folder = _folder_of(top)
    if folder is None:
        return
    yield top, folder
    if Path(folder).name in ("site-packages", "dist-packages"):
        return
    for name in [name for name in sys.modules if "." not in name and name not in (*OURS, "__main__")]:
        if _folder_of(name) == folder:
            yield name, folder


def _folder_of(top: str) -> str | None:
    """The folder that a top-level package or module was imported from."""
    origin = place_of(top)
    if origin is None:
        folders = list(getattr(sys.modules.get(top), "__path__", ()))  # a package without `__init__`
        return str(Path(folders[0]).parent) if folders else None
    path = Path(origin)
    if not path.is_file():  # built in, or frozen
        return None
    return str(path.parent.parent if path.stem == "__init__" else path.parent)


def _files_of(name: str, folder: Path) -> Iterator[Path]:
    if not (folder / name).is_dir():
        yield from (path for path in folder.glob(f"{name}.*") if path.suffix in (".py", ".so", ".pyd"))
        return
    for path in sorted((folder / name).rglob("*")):
        if path.is_file() and not _SKIPPED & set(path.relative_to(folder).parts):
            yield path


def _pin(name: str, folder: str, where: str) -> None:
    try:
        pin(name, folder)
    except ImportError as error:
        raise ConfigError(f"{where}: {error}") from error


def _import(module: str, where: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # other people's code may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{where}: no module {error.name!r} beside the sweep file, in this folder, or installed."
            ) from error
        raise ConfigError(
            f"{where}: cannot be imported ({type(error).__name__}: {reason(error)}){_line(error)}."
        ) from error


def _line(error: BaseException) -> str:
    """`, mine.py:12`: the line of a module that was being imported when it raised."""
    lines = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__) if frame.name == "<module>"]
    return ", {}:{}".format(*lines[-1]) if lines else ""
