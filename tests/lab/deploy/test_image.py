"""The image `cpu` as docker/Dockerfile builds it, on a base made by debootstrap: what is in it, and what runs in it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.chaos import compare
from tests.lab.deploy.container import run_container
from tests.lab.deploy.image import IMAGE_MARKS, Image, built_image

MOST_BYTES, MOST_LAYERS = 1.5e9, 4

pytestmark = IMAGE_MARKS

Run = Callable[..., str]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with built_image() as image:
        yield image


@pytest.fixture
def run(image: Image, tmp_path: Path) -> Run:
    """Runs a command in the image to its end, as its user, without rights and network, on a root that is read-only."""
    results, config = tmp_path / "results", image.config
    results.mkdir()
    os.chown(results, *map(int, config["User"].split(":")))
    numbers = itertools.count()

    def one(*words: str) -> str:
        environment = image.environment | {"WORKDIR": config["WorkingDir"]}
        folder = tmp_path / f"c{next(numbers)}"
        return run_container(
            image.files, [*config["Entrypoint"], *words], environment, config["User"], folder, results, 240
        )

    return one


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


def test_its_user_is_nobody_and_its_doctor_finds_what_a_sweep_needs(run: Run) -> None:
    assert run("id", "-u").strip() == "10001"
    assert "fail" not in run("permafrost", "doctor")


def test_a_sweep_on_ray_and_its_report_need_nothing_that_the_image_lacks(run: Run, tmp_path: Path) -> None:
    cells = ["space.data=[UD_English-EWT-sample]", "space.freeze=[none, {strategy: all_encoder, embeddings: true}]"]
    settings = [*cells, "seeds=[0]", "trial.train_size=50", "trial.optim.epochs=1"]
    run("permafrost", "launch", "--offline", *(word for setting in settings for word in ("--set", setting)))
    assert len(compare.finished(tmp_path / "results" / "results")) == 2
    run("permafrost", "report", "--sweep", "starter", "--no-pictures", "--no-answers")
