"""The image `cpu` as docker/Dockerfile builds it, on a base made by debootstrap: what is in it, and what runs in it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import compare
from tests.chaos.cluster import CHECKOUT, namespaces_allowed
from tests.deploy.container import Container, Mount, Setup
from tests.deploy.networks import Bridge
from tests.deployments import DEPLOYMENT
from tests.pip_settings import as_file, local_folders, pip_settings

RELEASE, MIRROR = "bookworm", "http://deb.debian.org/debian"
MOST_BYTES, MOST_LAYERS = 1.65e9, 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    DEPLOYMENT,
    pytest.mark.skipif(not namespaces_allowed(), reason="containers need root and network namespaces"),
    pytest.mark.skipif(not all(map(shutil.which, ("buildah", "debootstrap"))), reason="tests/deploy/prepare.sh"),
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
    """What two builds of it gave.

    Attributes:
        secret: A word of the pip.conf that the build was given.
        storage: All layers of all stages, and their histories.
        files: Where its files are mounted.
        about: As `buildah inspect` tells.
        ids: Of the first and the second build.
        seconds: What each took.
    """

    secret: str
    storage: Path
    files: Path
    about: dict[str, Any]
    ids: list[str]
    seconds: list[float]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as name:
        folder, settings, secret = Path(name), pip_settings(), secrets.token_hex(16)
        buildah = Buildah(folder)
        try:
            make_base(buildah, settings["PIP_CERT"])
            places = f"{settings.get('PIP_FIND_LINKS', '')} /opt/{secret}"
            (folder / "pip.conf").write_text(as_file(settings | {"PIP_FIND_LINKS": places}))
            words = ["--layers", "--format=docker", "--pull-never", "--file=docker/Dockerfile", "--target=cpu"]
            words += [f"--secret=id=pip.conf,src={folder}/pip.conf"]
            words += [f"--volume={place}:{place}:ro" for place in local_folders(settings)]
            words += [f"--build-arg=PYTORCH_INDEX={url}" for url in settings.get("PIP_EXTRA_INDEX_URL", "").split()[:1]]
            ids, seconds = [], []
            for _ in range(2):
                began = time.monotonic()
                ids.append(buildah("build", "--quiet", *words, "."))
                seconds.append(time.monotonic() - began)
            made = buildah("from", "--pull-never", ids[0])
            about = json.loads(buildah("inspect", "--type=image", ids[0]))
            yield Image(secret, buildah.storage, Path(buildah("mount", made)), about, ids, seconds)
        finally:
            buildah("rm", "--all")


def make_base(buildah: Buildah, certificates: str) -> None:
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


Run = Callable[..., str]


@pytest.fixture
def run(image: Image, tmp_path: Path) -> Iterator[Run]:
    """Runs a command in the image to its end, as its user, without rights and network, on a root that is read-only."""
    results, config = tmp_path / "results", image.about["Docker"]["config"]
    results.mkdir()
    os.chown(results, *map(int, config["User"].split(":")))
    mounts = [Mount("/results", results), Mount("/tmp"), Mount("/var/cache/permafrost")]
    environment = dict(variable.split("=", 1) for variable in config["Env"])
    started: list[Container] = []

    with Bridge(tmp_path) as bridge:

        def one(*words: str, seconds: float = 240) -> str:
            setup = Setup(
                image.files, [*config["Entrypoint"], *words], environment, config["User"], mounts=mounts,
                working_directory=config["WorkingDir"], space=bridge.apart(),
            )  # fmt: skip
            started.append(Container(setup, tmp_path / f"c{len(started)}"))
            started[-1].start()
            assert started[-1].wait(seconds) == 0, started[-1].said()
            return started[-1].said()

        yield one
        for container in started:
            container.kill()


def test_its_layers_are_few_and_their_sizes_below_the_bound(image: Image) -> None:
    sizes = [layer["size"] for layer in json.loads(image.about["Manifest"])["layers"]]
    assert len(sizes) <= MOST_LAYERS
    assert sum(sizes) < MOST_BYTES


def test_neither_a_layer_nor_a_history_holds_the_secret(image: Image) -> None:
    def holding(word: str) -> list[str]:
        words = ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "--exclude-dir=merged", word]
        told = subprocess.run([*words, image.storage], capture_output=True, text=True, check=False)
        return told.stdout.splitlines()

    assert holding("useradd --uid 10001")  # a history, and therefore all are searched
    assert holding(image.secret) == []


def test_a_second_build_takes_all_from_the_first_in_a_fifth_of_its_time(image: Image) -> None:
    assert image.ids[0] == image.ids[1]
    assert image.seconds[1] < image.seconds[0] / 5


def test_its_user_is_nobody_and_its_doctor_finds_what_a_sweep_needs(run: Run) -> None:
    assert run("id", "-u").strip() == "10001"
    assert "fail" not in run("permafrost", "doctor")


def test_a_sweep_on_ray_and_its_report_need_nothing_that_the_image_lacks(run: Run, tmp_path: Path) -> None:
    cells = ["space.data=[UD_English-EWT-sample]", "space.freeze=[none, {strategy: all_encoder, embeddings: true}]"]
    settings = [*cells, "seeds=[0]", "trial.train_size=50", "trial.optim.epochs=1"]
    run("permafrost", "launch", "--offline", *(word for setting in settings for word in ("--set", setting)))
    assert len(compare.finished(tmp_path / "results" / "results")) == 2
    run("permafrost", "report", "starter", "--no-pictures", "--no-answers")
