"""docker/hashes names a file of every package that docker/install.sh installs, in the version of constraints.txt."""

from __future__ import annotations

import importlib.metadata
import re

import pytest
import requests
from packaging.specifiers import SpecifierSet

from tests.examples import each
from tests.lab.gpu.carry import pinned_versions
from tests.security import hashes


@each("group", list(hashes.GROUPS))
def test_the_hashes_are_those_of_the_pinned_versions_of_all_that_is_needed(group: str) -> None:
    written = hashes.read_group(group)
    assert hashes.pins(group).items() <= {name: version for name, (version, _) in written.items()}.items()
    assert all(digests for _, digests in written.values())
    assert written.keys() <= {"pip"} | pinned_versions().keys()


def test_a_hash_that_the_index_does_not_have_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels = {name: {digest: digest for digest in digests} for name, (_, digests) in hashes.read_group("dev").items()}
    monkeypatch.setattr(hashes, "release_hashes", lambda name, _: wheels[name])
    assert hashes.main([]) == 0
    _, gone = wheels["typer"].popitem()
    assert (hashes.main([]), gone in capsys.readouterr().out) == (1, True)


def test_an_index_that_cannot_be_asked_is_said_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*_: str) -> dict[str, str]:
        raise requests.ConnectionError

    monkeypatch.setattr(hashes, "release_hashes", unreachable)
    assert hashes.main([]) == 0
    assert "not compared" in capsys.readouterr().out


def test_every_pinned_package_admits_the_oldest_python_that_ours_does() -> None:
    name = re.compile("[-_.]+")
    needs = {
        name.sub("-", found.metadata["Name"]).lower(): SpecifierSet(found.metadata["Requires-Python"])
        for found in importlib.metadata.distributions()
        if "Requires-Python" in found.metadata
    }
    pinned = pinned_versions().keys() & needs.keys()
    assert not {package: str(needs[package]) for package in pinned if "3.11.0" not in needs[package]}
