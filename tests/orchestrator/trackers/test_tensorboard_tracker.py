"""TensorBoard's files, as its own reader reads them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.api.answering import answer
from orchestrator.sweeps.watch_spec import WatchSpec
from tests.orchestrator.trackers.tracked_sweep import BROKEN, COMPLETE, DIVERGED, RETRIED, SPECS, run_tracked
from trials.escaping.untrusted_text import markdown
from trials.spec import TrialSpec

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import Status


def tracked(folder: Path) -> Path:
    """The folder of the sweep, tracked while it ran."""
    run_tracked(folder, WatchSpec(tensorboard=str(folder / "live")))
    return folder / "live" / "tiny"


def export(store: Path, folder: Path) -> None:
    done = CliRunner().invoke(app, ["export", "tensorboard", "--dir", str(folder), "--store", str(store)])
    assert (done.exit_code, done.stdout) == (0, "wrote 5 trials of tiny to tensorboard\n")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read(folder: Path, spec: TrialSpec) -> EventAccumulator:
    (found,) = folder.glob(f"*-{spec.trial_id}")
    return EventAccumulator(str(found)).Reload()


def scalars(events: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_every_evaluation_is_a_scalar_of_the_newest_attempt(tmp_path: Path) -> None:
    folder = tracked(tmp_path)
    assert scalars(read(folder, COMPLETE), "score") == [(13, 0.75), (26, 0.875)]
    assert scalars(read(folder, RETRIED), "accuracy") == [(13, 0.625), (26, 0.75)]
    assert scalars(read(folder, COMPLETE), "trial/best_score") == [(26, 0.875)]
    assert scalars(read(folder, COMPLETE), "test/accuracy") == [(26, 0.75)]
    assert math.isnan(scalars(read(folder, DIVERGED), "dev_loss")[-1][1])


def test_hparams_are_the_settings_of_a_trial_and_say_how_it_ended(tmp_path: Path) -> None:
    folder = tracked(tmp_path)
    for spec, status in ((RETRIED, "STATUS_SUCCESS"), (DIVERGED, "STATUS_FAILURE"), (BROKEN, "STATUS_FAILURE")):
        content = read(folder, spec).summary_metadata
        start = content[metadata.SESSION_START_INFO_TAG].plugin_data.content
        settings = metadata.parse_session_start_info_plugin_data(start).hparams
        assert (settings["freeze.depth"].number_value, settings["seed"].number_value) == (2, spec.seed)
        assert settings["freeze.strategy"].string_value == "first_k"
        end = content[metadata.SESSION_END_INFO_TAG].plugin_data.content
        assert metadata.parse_session_end_info_plugin_data(end).status == Status.Value(status)


def test_the_answer_of_the_sweep_is_a_text(tmp_path: Path) -> None:
    events = EventAccumulator(str(tracked(tmp_path) / "summary")).Reload()
    (text,) = events.Tensors("summary.md")[0].tensor_proto.string_val
    assert text.decode().startswith("# tiny\n\n**")
    (found,) = answer(str(tmp_path / "results"))
    assert f"\n{markdown(found.sentence)}\n" in text.decode()


def test_an_export_from_the_store_is_what_was_tracked_live(tmp_path: Path) -> None:
    live = files(tracked(tmp_path))
    export(tmp_path / "results", tmp_path / "exported")
    again = files(tmp_path / "exported" / "tiny")
    (broken,) = (name for name in live if BROKEN.trial_id in name)  # never evaluated: its only time is that of its end
    assert live.keys() == again.keys()
    assert {name for name in live if live[name] != again[name]} <= {broken}


def test_an_export_replaces_an_earlier_one_whatever_the_corpus_was_called(tmp_path: Path) -> None:
    store, out = tracked(tmp_path).parents[1] / "results", tmp_path / "exported"
    export(store, out)
    before = files(out)
    (folder,) = (out / "tiny").glob(f"*-{COMPLETE.trial_id}")
    folder.rename(folder.with_name(f"other-{COMPLETE.trial_id}"))
    export(store, out)
    assert files(out) == before


def test_names_from_outside_stay_in_the_folder(tmp_path: Path) -> None:
    folder = tracked(tmp_path)
    assert {path.parent.parent for path in (tmp_path / "live").rglob("*tfevents*")} == {folder}
    names = {path.name for path in folder.iterdir()}
    assert len(names) == len(SPECS) + 1
    assert all(name.isascii() and not set(name) & set("'\"<>&|`# \x1b/\\") for name in names)
