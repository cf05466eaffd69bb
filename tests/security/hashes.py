"""The hashes of what docker/install.sh installs: python -m tests.security.hashes [--write]

Compares docker/hashes with the index that pip asks, and exits 1 where a hash is not one of the pinned release's; where
the index cannot be asked, or gives no JSON, says so and exits 0.
--write writes the files, for what is pinned and installed.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import requests
from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pip._internal.models.index import PyPI

from tests.lab.gpu.carry import pinned_versions

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "hashes"
OURS = "permafrost-sweeps"
TESTED_PIP = "26.3"
GROUPS = {"build": "", "core": "", "all": "all", "dev": "dev"}
"""The extra of ours by file; each begins with the file before."""
UNHASHED = {OURS, "torch"}  # torch has builds of one version at several indexes, and brings the libraries of its CUDA
ENVIRONMENTS = [
    {"python_version": python, "python_full_version": f"{python}.0"} | machine
    for python in ("3.11", "3.12", "3.13")
    for machine in (
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64"},
        {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
    )
]
PLATFORM = r"(any|manylinux\S+_(x86_64|aarch64)|macosx\S+)\.whl"
FILES = re.compile(
    rf".+(\.tar\.gz|\.zip|-((py2\.)?py3|(py|cp)31[1-4])-(none|cp31[1-4])-{PLATFORM}|-cp3\d+-abi3-{PLATFORM})"
)
LIMIT_S = 30


def pins(group: str) -> dict[str, str]:
    """The version of each package that a file of hashes needs: what any of these machines has to have, and we know."""
    if group == "build":
        roots, own = [("hatchling", "")], {"pip": TESTED_PIP}
    else:
        roots, own = [(OURS, ""), (OURS, GROUPS[group])], {}
    versions = pinned_versions()
    found = set().union(*(_closure(roots, environment) for environment in ENVIRONMENTS)) - UNHASHED
    return own | {name: versions[name] for name in found if name in versions}


def _closure(roots: list[tuple[str, str]], environment: dict[str, str]) -> set[str]:
    seen: set[tuple[str, str]] = set()
    left = list(roots)
    while left:
        asked = left.pop()
        if asked in seen:
            continue
        seen.add(asked)
        name, extra = asked
        for requirement in map(Requirement, _requirements(name)):
            if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
                left += [(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)]
    return {name for name, _ in seen}


@functools.cache
def _requirements(name: str) -> list[str]:
    if name == OURS:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"].items()
        return [*project["dependencies"], *(f'{word}; extra == "{extra}"' for extra, words in extras for word in words)]
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # of another system; install.sh lets pip add it, without a hash
        return []


def read_group(group: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each package of a file, with those of the file that it begins with."""
    text = (FOLDER / f"{group}.txt").read_text(encoding="utf-8")
    found: dict[str, tuple[str, set[str]]] = {}
    for before in re.findall(r"^-r (\w+)\.txt$", text, re.MULTILINE):
        found |= read_group(before)
    for name, version, hashes in re.findall(r"^(\S+)==(\S+)((?: \\\n +--hash=sha256:\w+)+)$", text, re.MULTILINE):
        found[name] = (version, set(re.findall(r"sha256:(\w{64})", hashes)))
    return found


def write() -> None:
    """Write the files from what is pinned, installed and at the index. Raises requests.RequestException."""
    above: dict[str, str] = {}
    for group in GROUPS:
        lines = [f"-r {before}.txt" for before in [*GROUPS][: [*GROUPS].index(group)][-1:]]
        for name, version in sorted(pins(group).items() - above.items()):
            kept = sorted(digest for file, digest in release_hashes(name, version).items() if FILES.fullmatch(file))
            lines.append(" \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in kept)]))
            above[name] = version
        (FOLDER / f"{group}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@functools.cache
def release_hashes(name: str, version: str) -> dict[str, str]:
    """The hash of each file of a release, as pip's index has it. Raises requests.RequestException."""
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    answer = requests.get(f"{_index()}/{name}/", headers=accept, timeout=LIMIT_S)
    answer.raise_for_status()
    found = {file["filename"]: file["hashes"]["sha256"] for file in answer.json()["files"]}
    return {file: digest for file, digest in found.items() if _version(file) == version}


@functools.cache
def _index() -> str:
    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return (told or PyPI.simple_url).rstrip("/")


def _version(file: str) -> str:
    try:
        parsed = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):  # eggs and installers of other days
        return ""
    return str(parsed[1])


def main(words: Sequence[str]) -> int:
    """Compare the files with the index, or write them; the exit code."""
    if "--write" in words:
        write()
    wrong = []
    try:
        for name, (version, digests) in read_group("dev").items():
            unknown = digests - set(release_hashes(name, version).values())
            wrong += [f"{name} {version}: the index has no file with sha256 {digest}" for digest in sorted(unknown)]
    except (requests.RequestException, LookupError) as error:
        sys.stdout.write(f"hashes not compared: the index gives none ({type(error).__name__}).\n")
        return 0
    sys.stdout.write("\n".join(wrong or ["the hashes are those of the index."]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
