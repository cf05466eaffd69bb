"""What a machine with torch and transformers lacks, in a few files to bring there: Ray, small packages, this project.

The versions are those of constraints.txt, so both machines run the same but for what that one has already. Wheels come
with `pip download`, from wherever this machine's pip is set to look.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[3]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PIECE_BYTES = 60 << 20  # a piece is carried by itself
SITE, PROJECT = "site", "project"  # folders, each in an archive of its name
PYTHON = "python"  # the file of the version that the wheels are for

# What an image for training has beside torch and transformers.
MACHINE = (
    "torch", "transformers", "accelerate", "peft", "sentencepiece", "scipy", "scikit-learn", "pandas", "pyarrow",
    "aiohttp", "grpcio", "protobuf", "prometheus-client", "requests", "psutil", "msgpack", "cloudpickle",
    "pytest", "hypothesis",
)  # fmt: skip
PACKAGES = (
    # the orchestrator's and the trials'
    "annotated-doc", "annotated-types", "conllu", "httpcore2", "httpx2", "nvidia-ml-py", "obstore",
    "optuna", "colorlog", "pydantic", "pydantic-core", "truststore", "typer", "typing-extensions", "typing-inspection",
    "xxhash", "rich", "markdown-it-py", "mdurl", "pygments", "shellingham",
    # Ray's
    "ray", "aiohttp-cors", "attrs", "colorful", "distlib", "jsonschema", "jsonschema-specifications", "opencensus",
    "opencensus-context", "opentelemetry-api", "opentelemetry-exporter-prometheus", "opentelemetry-proto",
    "opentelemetry-sdk", "opentelemetry-semantic-conventions", "platformdirs", "python-discovery", "referencing",
    "rpds-py", "smart-open", "tensorboardx", "virtualenv", "wrapt",
)  # fmt: skip
# Of Ray: Java's workers, reinforcement learning, serving, language models, the scripts of its dashboard (without the
# folder of its pages Ray is ready a minute later), an allocator, C++; of virtualenv: the wheels that it would install.
UNUSED = (
    "ray/jars/", "ray/rllib/", "ray/serve/", "ray/llm/", "ray/dashboard/client/build/static/js/",
    "ray/dashboard/client/build/static/media/", "ray/dashboard/client/build/speedscope", "ray/core/libjemalloc.so",
    "ray/cpp/", "virtualenv/seed/wheels/embed/",
)  # fmt: skip
NOT_CARRIED = ("tests/assets/", "tests/browser/", "dashboards/assets/", "docs/", "configs/freezebench/store/")
GLIBC = range(17, 40)


def write_carry(folder: Path, *, python: str = HERE) -> list[Path]:
    """Write the archives of packages and project in pieces, which are returned; pieces that are there are replaced.

    Args:
        python: The version of Python over there, e.g. `3.12`.

    Raises:
        subprocess.CalledProcessError: pip does not find a wheel, or this is no git checkout.
        KeyError: constraints.txt does not name a package.
    """
    with tempfile.TemporaryDirectory(prefix="permafrost-carry-") as work, _archive(folder, SITE) as archive:
        _download(PACKAGES, Path(work), python)
        for wheel in sorted(Path(work).glob("*.whl")):
            _add_wheel(archive, wheel)
    (folder / PYTHON).write_text(f"{python}\n", encoding="utf-8")
    return [*pieces_in(folder, SITE), *write_project(folder)]


def write_project(folder: Path) -> list[Path]:
    """Write the project's archive alone, which takes seconds."""
    with _archive(folder, PROJECT) as archive:
        for name in _files_of_the_project():
            archive.add(ROOT / name, f"{PROJECT}/{name}", recursive=False)
    return pieces_in(folder, PROJECT)


def pieces_in(folder: Path, name: str) -> list[Path]:
    """The pieces of an archive in their order."""
    return sorted(folder.glob(f"{name}.tar.xz.[0-9]*"))


def unpack(folder: Path, into: Path) -> dict[str, str]:
    """Unpack as the other machine does it, and return the variables with which a program runs there."""
    into.mkdir(parents=True)
    for name in (SITE, PROJECT):
        command = f'cat "$1"/{name}.tar.xz.* | tar -xJ -C "$2"'
        subprocess.run(["sh", "-c", command, "sh", folder, into], check=True)
    return {"PYTHONPATH": f"{into / PROJECT}:{into / SITE}"}


def how_to_run(pieces: Sequence[Path]) -> str:
    """The commands for the other machine."""
    n_bytes = sum(piece.stat().st_size for piece in pieces)
    return (
        f"{len(pieces)} files, {n_bytes / 1e6:.0f} MB. There, with the interpreter that has torch:\n"
        f"  for name in {SITE} {PROJECT}; do cat $name.tar.xz.* | tar -xJ; done\n"
        f"  PYTHONPATH=$PWD/{PROJECT}:$PWD/{SITE} python3 -m tests.lab.gpu --out gpu\n"
    )


@contextmanager
def _archive(folder: Path, name: str) -> Iterator[tarfile.TarFile]:
    """Its pieces are there when the whole is: one that was cut off is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}.tar.xz.*"):
        old.unlink()
    whole = folder / f"{name}.tar.xz.part"
    with tarfile.open(whole, "w:xz") as archive:
        yield archive
    content = whole.read_bytes()
    for n, start in enumerate(range(0, len(content), PIECE_BYTES)):
        (folder / f"{name}.tar.xz.{n:02}").write_bytes(content[start : start + PIECE_BYTES])
    whole.unlink()


def pinned_versions() -> dict[str, str]:
    """Those of constraints.txt, by normalised name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub("[-_.]+", "-", name).lower(): version for name, _, version in pinned}


def _download(packages: Sequence[str], folder: Path, python: str) -> None:
    versions = pinned_versions()
    wanted = [f"{name}=={versions[name]}" for name in packages]
    platforms = ["manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in GLIBC)]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--implementation", "cp", "--python-version", python,
        *(word for name in platforms for word in ("--platform", name)), "--dest", str(folder), *wanted,
    ]  # fmt: skip
    subprocess.run(command, check=True)


def _add_wheel(archive: tarfile.TarFile, wheel: Path) -> None:
    """The files that an installation would put into site-packages."""
    with zipfile.ZipFile(wheel) as packed:
        for entry in packed.infolist():
            name = PurePosixPath(entry.filename)
            inside = name.parts[2:] if name.parts[0].endswith(".data") else name.parts
            scripts = name.parts[0].endswith(".data") and name.parts[1] not in ("purelib", "platlib")
            if entry.is_dir() or scripts or entry.filename.startswith(UNUSED):
                continue
            found = tarfile.TarInfo(str(PurePosixPath(SITE, *inside)))
            found.size, found.mode = entry.file_size, 0o755 if entry.external_attr >> 16 & 0o111 else 0o644
            with packed.open(entry) as content:
                archive.addfile(found, content)


def _files_of_the_project() -> list[str]:
    """All that git knows or would take, so that work that is not committed travels, too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = (name for name in sorted(set(listed)) if not name.startswith(NOT_CARRIED))
    return [name for name in wanted if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
