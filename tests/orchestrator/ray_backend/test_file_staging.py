"""The files of a trial are brought to a node once, and are the planned ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ray_backend import staging as staging
from orchestrator.ray_backend.staging import staged
from tests.builders import write_tagged_treebank
from trials.draft import Lookup, TrialDraft
from trials.errors import DataError
from trials.run import run_trial
from trials.spec import TrialSpec


class Origin:
    """The driver's node, which counts what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.asked.append(function.__name__)
        return function(*arguments)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrialSpec:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "node"))
    bank = write_tagged_treebank(tmp_path / "driver" / "bank", train=12, dev=4, test=4)
    draft = TrialDraft.model_validate({"data": {"folder": str(bank)}, "optim": {"epochs": 1}, "lowercase": True})
    return draft.resolve(Lookup(offline=True))


def test_it_is_the_same_trial_with_files_of_this_node(spec: TrialSpec, tmp_path: Path) -> None:
    here = staged(spec, Origin())
    assert here.trial_id == spec.trial_id
    paths = [*here.data.train, *here.data.dev, *here.data.test, here.model.path]
    assert all(Path(path).is_relative_to(tmp_path / "node") for path in paths)
    score = [record.score for record in run_trial(here)]
    assert score == [record.score for record in run_trial(spec)]


def test_what_is_here_is_not_asked_for_again(spec: TrialSpec) -> None:
    staged(spec, Origin())
    again = Origin()
    staged(spec, again)
    assert again.asked == []


def test_of_many_workers_at_once_one_fetches(spec: TrialSpec) -> None:
    origin = Origin()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: staged(spec, origin), range(8)))
    assert len({one.model.path for one in found}) == 1
    assert (origin.asked.count("corpus_files"), origin.asked.count("model_files")) == (1, 1)


def test_large_files_come_in_pieces(spec: TrialSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE_BYTES", 1 << 20)
    origin = Origin()
    here = staged(spec, origin)
    weights = Path(spec.model.path) / "model.safetensors"
    assert (Path(here.model.path) / "model.safetensors").read_bytes() == weights.read_bytes()
    assert origin.asked.count("piece") > weights.stat().st_size >> 20


def test_what_came_wrong_is_refused_and_fetched_again_the_next_time(spec: TrialSpec) -> None:
    def broken(function: Callable[..., Any], *arguments: Any) -> Any:
        found = function(*arguments)
        return found[:-1] + b"x" if isinstance(found, bytes) else found

    with pytest.raises(ConnectionError, match="are not what was planned"):
        staged(spec, broken)
    assert staged(spec, Origin()).trial_id == spec.trial_id


def test_files_that_were_edited_on_the_drivers_node_are_refused_by_their_path(spec: TrialSpec, tmp_path: Path) -> None:
    train = Path(spec.data.train[0])
    train.write_text(train.read_text().replace("NOUN", "VERB"))
    with pytest.raises(DataError, match=r"files changed since the sweep was planned .*train\.conllu"):
        staged(spec, Origin())


def test_files_that_were_damaged_on_this_node_are_copied_anew(spec: TrialSpec) -> None:
    here = staged(spec, Origin())
    for path in (Path(here.model.path) / "tokenizer.json", Path(here.data.dev[0])):
        path.write_bytes(path.read_bytes()[:-9])
    origin = Origin()
    assert staged(spec, origin) == here
    assert {"model_files", "corpus_files"} <= set(origin.asked)
