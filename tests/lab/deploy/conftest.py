"""One build of the image for all tests that run something of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.deploy import image as images


@pytest.fixture(scope="session")
def image() -> Iterator[images.Image]:
    with images.built_image() as image:
        yield image
