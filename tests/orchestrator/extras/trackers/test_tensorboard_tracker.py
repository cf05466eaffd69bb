"""TensorBoard's files, as its own reader reads them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.orchestrator.extras.trackers.tracked_sweep import (
    BROKEN,
    COMPLETE,
    DIVERGED,
    RETRIED,
    SPECS,
    driven,
    exported,
    play,
)
from trials.spec import TrialSpec

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the store, with the runs of an export in `runs`."""
    folder = tmp_path_factory.mktemp("tensorboard")
    *_, _ = play(folder)
    export(folder, folder / "runs")
    return folder


@pytest.fixture
def live(folder: Path) -> Path:
    """The runs of the sweep."""
    return folder / "runs" / "tiny"


def export(folder: Path, into: Path, *options: str) -> None:
    done = exported(folder, "--to", "tensorboard", "--into", str(into), *options)
    assert (done.exit_code, done.stdout) == (0, "wrote 5 trials of tiny to tensorboard\n")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read(folder: Path, spec: TrialSpec) -> EventAccumulator:
    (found,) = folder.glob(f"*-{spec.trial_id}")
    return EventAccumulator(str(found)).Reload()


def scalars(events: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_every_evaluation_is_a_scalar_of_the_newest_attempt(live: Path) -> None:
    complete = read(live, COMPLETE)
    assert scalars(complete, "score") == [(13, 0.75), (26, 0.875)]
    assert scalars(complete, "trial/best_score") == [(26, 0.875)]
    assert scalars(complete, "test/accuracy") == [(26, 0.75)]
    assert scalars(read(live, RETRIED), "accuracy") == [(13, 0.625), (26, 0.75)]
    assert math.isnan(scalars(read(live, DIVERGED), "dev_loss")[-1][1])


def test_a_trial_that_was_never_evaluated_has_no_metric_as_what_names_it_is_none(live: Path) -> None:
    assert read(live, BROKEN).Tags()["scalars"] == []


def test_another_export_replaces_an_earlier_one_whatever_the_corpus_was_called(folder: Path, live: Path) -> None:
    before = files(live)
    (renamed,) = live.glob(f"*-{COMPLETE.trial_id}")
    renamed.rename(renamed.with_name(f"other-{COMPLETE.trial_id}"))
    export(folder, folder / "runs")
    assert files(live) == before


def test_a_sweep_that_is_followed_gives_the_runs_of_an_export_afterwards(live: Path, tmp_path: Path) -> None:
    with driven(tmp_path):
        export(tmp_path, tmp_path / "runs", "--follow")
    followed, afterwards = files(tmp_path / "runs" / "tiny"), files(live)
    assert followed.keys() == afterwards.keys()
    differing = {name for name in followed if followed[name] != afterwards[name]}
    assert all(BROKEN.trial_id in name for name in differing)  # never evaluated: its only time is its end's


def test_ctrl_c_ends_the_export_alone_and_closes_what_was_begun(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with driven(tmp_path, interrupt):
        done = exported(tmp_path, "--to", "tensorboard", "--into", str(tmp_path / "runs"), "--follow")
    assert (done.exit_code, done.stdout) == (0, "wrote 3 trials of tiny to tensorboard\n")
    assert scalars(read(tmp_path / "runs" / "tiny", COMPLETE), "score") == [(13, 0.75)]


def test_names_from_outside_stay_in_the_folder(live: Path) -> None:
    assert {path.parent.parent for path in live.parent.rglob("*tfevents*")} == {live}
    names = {path.name for path in live.iterdir()}
    assert len(names) == len(SPECS)
    assert all(name.isascii() and not set(name) & set("'\"<>&|`# \x1b/\\") for name in names)
