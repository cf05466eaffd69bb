"""The image `cpu` as docker/Dockerfile builds it with Debian's buildah, on a base that debootstrap makes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployments import DEPLOYMENT
from tests.lab.chaos.cluster import CHECKOUT, namespaces_allowed
from tests.pip_settings import as_file, local_folders, pip_settings

RELEASE, MIRROR = "bookworm", "http://deb.debian.org/debian"

IMAGE_MARKS = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    DEPLOYMENT,
    pytest.mark.skipif(not namespaces_allowed(), reason="containers need root and network namespaces"),
    pytest.mark.skipif(not all(map(shutil.which, ("buildah", "debootstrap"))), reason="tests/lab/deploy/prepare.sh"),
]


class Buildah:
    """Debian's buildah with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self.storage = folder / "storage"
        self._words = ["buildah", f"--root={self.storage}", f"--runroot={folder / 'run'}", "--storage-driver=overlay"]
        self._environment = os.environ | {"TMPDIR": str(folder), "BUILDAH_ISOLATION": "chroot"}

    def __call__(self, *words: str) -> str:
        told = subprocess.run(
            [*self._words, *words], cwd=CHECKOUT, env=self._environment, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr[-3000:]
        return told.stdout.strip()


@dataclass(frozen=True)
class Image:
    """What its build gave.

    Attributes:
        secret: A word of the pip.conf that the build was given.
        storage: All layers of all stages, and their histories.
        files: Where its files are mounted.
        about: As `buildah inspect` tells.
    """

    secret: str
    storage: Path
    files: Path
    about: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """What containers of it are started with."""
        found: dict[str, Any] = self.about["Docker"]["config"]
        return found

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return dict(variable.split("=", 1) for variable in self.config["Env"])


@contextlib.contextmanager
def built_image() -> Iterator[Image]:
    """Built once; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as name:
        folder, settings, secret = Path(name), pip_settings(), secrets.token_hex(16)
        buildah = Buildah(folder)
        try:
            _make_base(buildah, settings["PIP_CERT"])
            places = f"{settings.get('PIP_FIND_LINKS', '')} /opt/{secret}"
            (folder / "pip.conf").write_text(as_file(settings | {"PIP_FIND_LINKS": places}))
            words = ["--layers", "--format=docker", "--pull-never", "--file=docker/Dockerfile", "--target=cpu"]
            words += [f"--secret=id=pip.conf,src={folder}/pip.conf"]
            words += [f"--volume={place}:{place}:ro" for place in local_folders(settings)]
            words += [f"--build-arg=PYTORCH_INDEX={url}" for url in settings.get("PIP_EXTRA_INDEX_URL", "").split()[:1]]
            built = buildah("build", "--quiet", *words, ".")
            made = buildah("from", "--pull-never", built)
            about = json.loads(buildah("inspect", "--type=image", built))
            yield Image(secret, buildah.storage, Path(buildah("mount", made)), about)
        finally:
            buildah("rm", "--all")


def _make_base(buildah: Buildah, certificates: str) -> None:
    """An image of the name that the Dockerfile begins with, without what Docker's slim images leave out as well."""
    found = re.search(r"PYTHON_TAG=(\S+)", (CHECKOUT / "docker" / "Dockerfile").read_text())
    assert found
    container = buildah("from", "scratch")
    root = Path(buildah("mount", container))
    words = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", RELEASE]
    subprocess.run([*words, str(root), MIRROR], check=True, stdout=subprocess.DEVNULL)
    for part in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / part)
    shutil.copy(certificates, root / certificates.lstrip("/"))
    buildah("commit", "--quiet", container, f"docker.io/library/python:{found[1]}")
