"""Whatever happens to the files of a node's cache, a trial's numbers stay; what does not fit is said and made anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.cache import encoding
from trials.cache.node_cache import read_checked_json, write_json
from trials.cache.set_up_work import SetUpWork, report_to
from trials.run import run_trial
from trials.spec import TrialSpec

FROZEN = {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False}


def flip_bits(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for at in range(len(content) // 2, len(content), 97):
        content[at] ^= 4
    path.write_bytes(content)


def flip_one_bit_and_restore_the_times(path: Path) -> None:
    content, status = bytearray(path.read_bytes()), path.stat()
    content[-1:] = bytes(byte ^ 1 for byte in content[-1:])
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def roll(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:128] + content[136:] + content[128:136])


def replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.rename(path.with_name(f"{path.name}.before"))
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped bits": flip_bits,
    "a flipped bit under the old times": flip_one_bit_and_restore_the_times,
    "cut to half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "missing": replaced(lambda path: None),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a pipe": replaced(os.mkfifo),
    "empty": lambda path: os.truncate(path, 0),
    "a folder": replaced(Path.mkdir),
    "a link without an end": replaced(lambda path: path.symlink_to("/dev/zero")),
}
FILES = ("prefix/*/*.states", "prefix/*/*.rows", "tokens/*/*.npy", "tokens/*/meta.json", "**/*.lock")


def losses(spec: TrialSpec) -> list[tuple[float, ...]]:
    return [record.step_losses for record in run_trial(spec, device=torch.device("cpu"))]


@pytest.fixture(scope="module")
def spec(make_any_trial: TrialMaker) -> TrialSpec:
    return make_any_trial(**FROZEN, train_size=8)


@pytest.fixture(scope="module")
def warm(spec: TrialSpec, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[float, ...]]]:
    """A cache with the files of a trial, and its losses."""
    cache = tmp_path_factory.mktemp("warm") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMAFROST_CACHE", str(cache))
        encoding._encode.cache_clear()
        return cache, losses(spec)


def copied(warm: tuple[Path, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, for a process that has none of its files mapped."""
    encoding._encode.cache_clear()
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(warm[0], tmp_path / "cache"))


@pytest.fixture
def cache(warm: tuple[Path, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return copied(warm, tmp_path, monkeypatch)


QUICK = [f"{damage} in {FILES[n % len(FILES)]}" for n, damage in enumerate(DAMAGES)]
CASES = dict.fromkeys([*QUICK, *(f"{damage} in {files}" for damage in DAMAGES for files in FILES)])


@each("case", CASES, quick=len(QUICK))
def test_a_trial_over_damaged_files_has_the_bits_of_one_that_made_them(
    case: str,
    spec: TrialSpec,
    warm: tuple[Path, list[tuple[float, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = copied(warm, tmp_path, monkeypatch)
    said, (damage, _, pattern) = list[SetUpWork](), case.rpartition(" in ")
    files = [path for path in cache.glob(pattern) if path.stat().st_size or "lock" in path.name]
    for path in files:
        DAMAGES[damage](path)
    with report_to(said.append, every_s=3600):
        assert losses(spec) == warm[1]
    assert files
    looks_unwritten = damage == "missing" or (damage, pattern) == ("zeros", FILES[1])
    assert all(work.is_note and "anew" in str(work) for work in said)
    assert said or looks_unwritten or pattern.endswith("lock")
    said.clear()
    with report_to(said.append, every_s=3600):  # it was made anew
        assert losses(spec) == warm[1]
    assert said == []


def test_a_process_that_has_read_the_files_notices_that_they_change(
    spec: TrialSpec, warm: tuple[Path, list[tuple[float, ...]]], cache: Path
) -> None:
    assert losses(spec) == warm[1]
    for path in cache.glob("tokens/*/train.ids.npy"):
        roll(path)
    for path in cache.glob("prefix/*/dev.states"):
        flip_one_bit_and_restore_the_times(path)
    said = list[SetUpWork]()
    with report_to(said.append, every_s=3600):
        assert losses(spec) == warm[1]
    assert any("the states of 1 of" in str(work) for work in said)


@each("content", ["[]", "{}", "null", "1", '{"digest": 1, "content": 2}', "[" * 9999, "\0"])
def test_json_that_the_cache_did_not_write_is_a_value_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"."):
        read_checked_json(path, "key")
    write_json(path, ["as written"], "key")
    assert read_checked_json(path, "key") == ["as written"]
    with pytest.raises(ValueError, match="digest does not fit"):
        read_checked_json(path, "another key")
