"""Registries, and the plug-ins of other people: modules that register something in one when they are imported.

A registry holds the names that a YAML file may use for one kind of plugin, and their implementations. A package
announces its module by an entry point of the group `permafrost.plugins`; a sweep file names modules that need no
package under `plugins:`, and every command takes `--plugin`. Whoever runs trials elsewhere takes `loaded()` along, as a
value or as files (`orchestrator.ray_backend.staging`), and calls `LoadedPlugins.load` there.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import FrameType
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from trials.errors import ConfigError, UnknownNameError, reason, unknown
from trials.outside import plain_files
from trials.plugins.import_origins import OURS, pin, place_of

T = TypeVar("T")

NOT_LOADED = "plug-in not loaded"  # what stands beside a name that a store has and no module registered
HINT = "One of a plug-in: name its module under `plugins`, or with --plugin."

_registries: WeakSet[Registry[Any]] = WeakSet()


class Registry(Generic[T]):
    """Plugins of one kind by name.

    Attributes:
        kind: What they are, for error messages.
    """

    def __init__(self, kind: str, *, reserved: Collection[str] = ()) -> None:
        """An empty registry; words that are reserved mean something else in the same place."""
        self.kind, self._reserved = kind, reserved
        self._plugins: dict[str, T] = {}
        self._modules: dict[str, str] = {}  # of each plugin that is not ours
        _registries.add(self)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers a plugin under the name that YAML files use.

        Raises:
            ValueError: Another module has registered the name. The same one may do so again, as a notebook does.
        """

        def add(plugin: T) -> T:
            module = _registering_module()
            if name in self._reserved:
                raise ValueError(f"{self.kind} {name!r}: this word has a meaning of its own. Choose another name.")
            if name in self._plugins and (module is None or self._modules.get(name) != module):
                by = self._modules.get(name) or "Permafrost"
                raise ValueError(f"{self.kind} {name!r} is registered by {by} already. Choose another name.")
            self._plugins[name] = plugin
            if module is not None:
                self._modules[name] = module
            return plugin

        return add

    def __getitem__(self, name: str) -> T:
        """The plugin of that name. Raises an UnknownNameError that lists the known names."""
        if name not in self._plugins:
            raise UnknownNameError(f"{unknown(name, self._plugins)} {HINT}")
        return self._plugins[name]

    def get(self, name: str) -> T | None:
        """The plugin of that name; None if it is not registered, as a store may hold trials of one that is not."""
        return self._plugins.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._plugins))

    def values(self) -> tuple[T, ...]:
        """The plugins in the order in which they were registered."""
        return tuple(self._plugins.values())

    def items(self) -> tuple[tuple[str, T], ...]:
        """Names and plugins in that order."""
        return tuple(self._plugins.items())

    def our_values(self) -> tuple[T, ...]:
        """Those that are part of Permafrost."""
        return tuple(plugin for name, plugin in self._plugins.items() if name not in self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._plugins


def registries() -> tuple[Registry[Any], ...]:
    """All of them, whatever they hold."""
    return tuple(_registries)


def outside_modules() -> list[str]:
    """The modules that are not ours and have registered something."""
    return sorted(
        {registry._modules[name] for registry in _registries for name in registry._plugins if name in registry._modules}
    )


def _registering_module() -> str | None:
    """The module that calls `register`, perhaps through functions of ours; None if it is one of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in OURS:  # what imports one of ours is Python's own machinery
            return None if name.startswith(("importlib.", "_frozen_importlib")) else name
        frame = frame.f_back
    return None


GROUP = "permafrost.plugins"
MOST_BYTES = 64 << 20  # of all files of the plug-ins: code, and perhaps a table or two
_SKIPPED = {"__pycache__", ".git"}

_loaded: dict[str, None] = {}


@dataclass(frozen=True)
class LoadedPlugins:
    """Modules, and the folder that each of their top-level names is imported from.

    Attributes:
        folders: By name, of the plug-ins themselves and of modules beside them that they use.
    """

    modules: tuple[str, ...]
    folders: dict[str, str]

    def load(self) -> None:
        """Import them here. Raises ConfigError."""
        for name, folder in self.folders.items():
            _pin(name, folder, name)
        for module in self.modules:
            _import(module, module)

    def to_json(self) -> str:
        """As an argument of another process on this machine."""
        return json.dumps([self.modules, self.folders])

    @classmethod
    def of_json(cls, text: str) -> LoadedPlugins:
        """From `to_json`."""
        modules, folders = json.loads(text)
        return cls(tuple(modules), folders)

    def files(self) -> dict[str, Path]:
        """Every file, by its path below a common folder.

        Raises:
            ConfigError: They are too large to be sent.
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


def digest_of(files: dict[str, Path]) -> str:
    """SHA-256 over the names and bytes of files."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(f"{name}\0{plain_files.digest_of(path, MOST_BYTES).hex()}\n".encode())
    return total.hexdigest()


@cache
def load_installed() -> tuple[str, ...]:
    """Load the plug-ins of all installed packages, once; a line for each that does not load, which stops nothing."""
    problems = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            _import(point.module, _named(point))
            _loaded[point.module] = None
        except ConfigError as error:
            problems.append(str(error))
    return tuple(problems)


def _named(point: EntryPoint) -> str:
    package = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
    return f"plug-in {point.name!r}{package}"


def load(modules: Iterable[str], beside: Sequence[Path] = (), where: str = "plugins") -> None:
    """Load plug-ins by module name, or by the path of a `.py` file.

    Args:
        beside: Folders that are searched before Python's own.
        where: The key or option that names them, for errors.

    Raises:
        ConfigError: A module is not there, cannot be imported, or has a name that is taken.
    """
    load_installed()
    for given in modules:
        name, folders = _module_of(given, beside)
        top = name.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names:
            owner = "Permafrost" if top in OURS else "Python"
            raise ConfigError(f"{where}: {given}: {owner} has a module of this name. Rename yours.")
        folder = next((folder for folder in folders if PathFinder.find_spec(top, [str(folder)])), None)
        if folder is not None:
            _pin(top, str(folder), f"{where}: {given}")
            if str(folder) not in sys.path:
                sys.path.append(str(folder))  # last, for what a plug-in imports from beside it
        _import(name, f"{where}: {given}")
        _loaded[name] = None


def _module_of(given: str, beside: Sequence[Path]) -> tuple[str, list[Path]]:
    """The name of a module, and the folders that may hold it, for a name or the path of a file."""
    if not given.endswith(".py"):
        return given, [folder.resolve() for folder in beside]
    path = Path(given)
    return path.stem, [(folder / path.parent).resolve() for folder in (*beside, Path())]


def loaded() -> LoadedPlugins:
    """What is loaded here: what was named, and every module that registered something.

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
    """SHA-256 over the files of each plug-in, by its module; a script or notebook that registers something has none."""
    digests: dict[str, str] = {}
    for module in dict.fromkeys([*_loaded, *outside_modules()]):
        files = LoadedPlugins((module,), dict(_places(module))).files()
        digests |= {module: digest_of(files)} if files else {}
    return digests


def _places(module: str) -> Iterator[tuple[str, str]]:
    """The top-level name of a module with its folder; unless that is one of installed packages, also what is loaded
    from beside it.
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
    except Exception as error:  # anything can be wrong with another's code
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
