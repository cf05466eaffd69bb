"""Where checkpoints cannot be written, trials go on: one note, and `status` shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.commands.status_command import status
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import open_store
from tests.builders import write_sweep
from tests.lab.chaos.cluster import small_disk
from tests.small_sweeps import POS, write_bank


def test_a_disk_too_small_for_checkpoints_costs_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "bank", train=24, dev=8, test=8)
    text = POS.replace("folder: ", f"folder: {tmp_path}/") + "checkpoint: {epochs: 1}\nname: small\n"
    sweep = write_sweep(tmp_path / "small.yaml", text)
    with small_disk(tmp_path / "disk", megabytes=2) as mounted:
        if not mounted:
            monkeypatch.setattr(FolderStorage, "free_bytes", lambda self: 0)
        store = tmp_path / "disk" / "store"
        with pytest.raises(typer.Exit) as ended:
            launch(sweep, "inline", str(store))
        assert ended.value.exit_code == 0
        assert capfd.readouterr().err.count("note    checkpoints cannot be written; trials go on") == 1
        rows = open_store(store).trials().to_pylist()
        assert [row["state"] for row in rows] == ["completed"] * 2
        assert all("no room for a checkpoint of" in row["checkpoint_error"] for row in rows)
        status(str(store))
        assert "note: in 2 of 2 trials checkpoints could not be written" in capfd.readouterr().out
