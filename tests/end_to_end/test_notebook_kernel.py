"""Permafrost in a notebook: a real kernel runs cells, and is interrupted as the stop button does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.small_sweeps import write_bank

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SWEEP = """
from orchestrator import api
from dashboards.notebook import figure
sweep = {"name": "small", "trial": {"data": {"folder": "<i>bank"}, "lowercase": True,
         "optim": {"lr": 1e-3, "head_lr": 1e-2, "epochs": 2}},
         "space": {"freeze": ["none", {"strategy": "first_k", "depth": 5}]}, "seeds": list(range(6))}
stopped = api.launch(sweep, cluster="inline")
"""
CELLS = {
    "interrupted": SWEEP,
    "stopped": "stopped",
    "again": "done = api.launch(sweep, cluster='inline')",
    "done": "done",
    "answers": "done.answers()",
    "plan": "api.plan(sweep)",
    "figure": "figure(store='results').to_dict()['layout']['yaxis']['title']['text']",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """By MIME type, of each cell of a notebook whose first launch is interrupted after its first trial."""
    folder = tmp_path_factory.mktemp("notebook")
    write_bank(folder / "<i>bank", train=60, dev=30, test=10)
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    asyncio.run(run(client, interrupt_after=lambda: any(folder.glob("results/commits/*"))))
    return {
        name: [each.get("data", {"stream": each.get("text")}) for each in cell.outputs]
        for name, cell in zip(CELLS, cells, strict=True)
    }


async def run(client: NotebookClient, interrupt_after: Callable[[], bool]) -> None:
    kernel = asyncio.create_task(client.async_execute())
    while not (kernel.done() or interrupt_after()):
        await asyncio.sleep(0.05)
    manager: Any = client.km
    await manager.interrupt_kernel()
    await kernel


Outputs = dict[str, list[dict[str, Any]]]


def test_a_launch_is_one_output_of_its_cell(outputs: Outputs) -> None:
    (progress,) = outputs["again"]
    assert re.search(r"(\d+) of \1 trials", progress["text/plain"])


def test_the_stop_button_keeps_what_is_done_and_says_how_to_resume(outputs: Outputs) -> None:
    (progress,) = outputs["interrupted"]
    assert "Stopping: running trials continue to their next evaluation" in progress["text/plain"]
    text = outputs["stopped"][0]["text/plain"]
    assert "left; finished trials are in the store.\nCall `launch` again with the same arguments to resume." in text


def test_the_same_call_goes_on(outputs: Outputs) -> None:
    found = re.search(r"sweep   small: (\d+) completed of 12 trials .*; (\d+) were", outputs["done"][0]["text/plain"])
    assert found is not None
    assert int(found[1]) + int(found[2]) == 12
    assert int(found[2]) > 0


def test_results_show_themselves_and_text_is_no_markup(outputs: Outputs) -> None:
    assert "12 complete in the store, 0 to run" in outputs["plan"][0]["text/html"]
    for name in ("done", "answers"):
        html = outputs[name][0]["text/html"]
        assert "&lt;i&gt;bank" in html
        assert "<i>bank" not in html


def test_a_figure_of_the_dashboard_is_plotlys(outputs: Outputs) -> None:
    assert outputs["figure"][0]["text/plain"] == "'dev accuracy (%)'"
