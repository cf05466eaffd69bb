"""The tutorial notebook runs from top to bottom, and is stored without what it printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from docs.repository_pages import NOTEBOOK
from tests.docs.snippets import CHECKOUT

SOURCE = CHECKOUT / NOTEBOOK


def outputs(cell: Any) -> str:
    return json.dumps(cell.get("outputs", []))


def test_it_holds_no_output() -> None:
    cells = json.loads(SOURCE.read_text(encoding="utf-8"))["cells"]
    assert {(str(cell["outputs"]), cell["execution_count"]) for cell in cells if cell["cell_type"] == "code"} == {
        ("[]", None)
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client and its event loop
def test_it_runs_and_ends_with_three_more_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.reads(SOURCE.read_text(encoding="utf-8"), as_version=4)
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {cell.id: outputs(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "'9'" in shown["plan"] or '"9"' in shown["plan"]
    assert "completed=9" in shown["launch"]
    assert "UD_English-EWT-sample" in shown["answer"]
    assert "skipped=9, completed=3" in shown["again"]
