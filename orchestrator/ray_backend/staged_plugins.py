"""Plug-ins on their way to workers: as files in each node's cache, under the digest of all of them.

The driver puts them into its own node's cache when a sweep starts, so that editing a plug-in while the sweep runs
changes none of its trials. Workers of other nodes copy them from there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.ray_backend.staging import Ask, OriginFile, asking, cached
from trials.plugins.loading import LoadedPlugins, digest_of, loaded


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
