"""What a launch shows: whole, also on eighty columns and where there is no terminal."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.analysis.summary import CellSummary
from orchestrator.commands.plan_command import setting_table
from orchestrator.config.console import SafeConsole
from orchestrator.config.notebook import NotebookOutput
from orchestrator.execution.trial_queue import End
from orchestrator.session.display import LiveDisplay, RunningTrials
from orchestrator.session.tables import cell_tables, failure_table, plan_lines, unbroken
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import first_k, make_record, make_spec, write_sweep, write_treebank
from trials.cache.set_up_work import SetUpWork
from trials.draft import Lookup
from trials.hardware.machine import processor_name
from trials.record import State
from trials.spec import TrialSpec

INLINE = ClusterSpec(address="inline", gpus=0)


def make_cell(spec: TrialSpec, states: dict[str, int] | None = None) -> CellSummary:
    """A cell with figures as wide as they come."""
    figures = {
        "score_mean": 0.96123, "score_std": 0.0123, "test_mean": 0.95678, "training_cost_s": 12345.6,
        "total_params": 66_000_000, "trainable_params": 23_400_000, "saved_params": 0.645, "saved_flops": 0.309,
        "saved_time": 0.551, "saved_time_low": -0.28, "saved_time_high": 0.43,
    }  # fmt: skip
    return CellSummary(spec=spec, planned=10, states=Counter(states or {"completed": 10}), **figures)  # type: ignore[arg-type]


def frozen(*layers: int, strategy: str = "layers") -> dict[str, object]:
    return {"strategy": strategy, "layers": layers, "embeddings": True}


def shown(*cells: CellSummary, width: int = 80) -> list[str]:
    """The lines of the tables, as a terminal of that width shows them."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        for table in cell_tables(cells):
            console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


FIGURES = ["10/10", "96.12 ± 1.23", "95.68", "64.5 %", "30.9 %", "55 % (-28 to 43)"]
WIDE = {
    "alternating": [make_cell(make_spec(freeze=frozen(0, 2, 4, strategy="alternating")))],
    "every layer named": [make_cell(make_spec(freeze=frozen(0, 1, 2, 3, 4, 5)))],
    "two settings vary": [
        make_cell(make_spec(optim={"lr": 1e-3}, dropout=0.1, freeze=frozen(0, 2, 4, strategy="alternating"))),
        make_cell(make_spec(optim={"lr": 0.00012345678}, dropout=0.2)),
    ],
}


@pytest.mark.parametrize("cells", WIDE.values(), ids=WIDE.keys())
def test_a_table_on_eighty_columns_loses_no_figure_and_says_the_same_as_a_wide_one(cells: list[CellSummary]) -> None:
    lines, wide = shown(*cells), shown(*cells, width=200)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    for figures, n in ((FIGURES[:3], len(cells)), (FIGURES, len([cell for cell in cells if not cell.is_baseline]))):
        assert len([line for line in lines if all(figure in line for figure in figures)]) == n
    narrow, broad = (sorted("".join(" ".join(found).split())) for found in (lines, wide))
    assert narrow == broad


@pytest.mark.parametrize(("width", "n_figures"), [(60, 4), (45, 3), (20, 0)])
def test_on_a_narrow_terminal_every_setting_has_its_freeze_and_the_last_figures_are_left_to_a_wider_one(
    width: int, n_figures: int
) -> None:
    lines = shown(*WIDE["alternating"], make_cell(make_spec()), width=width)
    assert (max(map(len, lines)) <= width, any("alternating" in line for line in lines)) == (True, True)
    (row,) = [line for line in lines if line.startswith("□ □□□□□□ none") and ":" not in line]
    assert [figure in row for figure in FIGURES[:3]] == [n_figures > n for n in range(3)]
    assert "on a wider terminal" in " ".join(" ".join(lines).split())


def test_settings_that_vary_stand_beside_the_freeze_and_tables_under_one_another() -> None:
    lines = shown(make_cell(make_spec(optim={"lr": 1e-3})), make_cell(make_spec(optim={"lr": 1e-4})), width=120)
    assert [line.split()[2:4] for line in lines if "10/10" in line] == [["none", "lr=0.001"], ["none", "lr=0.0001"]]
    cells = [make_cell(make_spec()), make_cell(make_spec(train_size=9, freeze=frozen(0, 2, 4, strategy="alternating")))]
    first, second = (line for line in shown(*cells) if line.startswith("freeze"))
    assert first == second


def test_replicates_that_did_not_complete_are_told_below_the_table() -> None:
    lines = shown(make_cell(make_spec(), {"completed": 7, "failed": 1, "out_of_memory": 2}))
    assert any("7/10" in line for line in lines)
    assert lines[-2] == "□ □□□□□□ none: 1 failed, 2 out_of_memory"
    without = shown(CellSummary(make_spec(), planned=3, states=Counter(failed=3)))
    assert without[-3].split() == ["□", "□□□□□□", "none", "0/3"]
    assert without[-2] == "□ □□□□□□ none: 3 failed"


def test_a_setting_is_shown_by_its_layer_strip_and_the_squares_are_explained_once() -> None:
    lines = shown(make_cell(make_spec(freeze=frozen(0, 1))), make_cell(make_spec()), width=100)
    assert any(line.startswith("■ ■■□□□□ layers 1 to 2 ") for line in lines)
    assert lines[-2:] == [
        "■ frozen, □ trained: first the embeddings, then the layers from the input up",
        "frozen layers with dropout",
    ]


def test_a_table_says_whether_frozen_layers_had_dropout() -> None:
    tables: dict[str, list[list[dict[str, Any]]]] = {
        "frozen layers without dropout": [[{"frozen_dropout": False}], [{"frozen_dropout": True, "dropout": 0.0}]],
        "frozen layers without dropout or with dropout": [[{"frozen_dropout": False}, {}]],
    }
    for words, changes in ((words, changes) for words, tables_ in tables.items() for changes in tables_):
        cells = [make_cell(make_spec(freeze=frozen(0, 1), **change)) for change in changes]
        assert shown(*cells, width=140)[-1] == words
    assert not any("dropout" in line for line in shown(make_cell(make_spec())))


@pytest.mark.parametrize("width", [80, 40])
def test_no_name_of_a_trial_is_cut_inside_a_word_however_narrow_the_terminal(width: int) -> None:
    spec = make_spec(seed=7, freeze=first_k(4), data={"name": "UD_English-EWT-sample"})
    label = spec.label
    console = Console(width=width, file=(file := io.StringIO()), color_system=None)
    console.print(RunningTrials([(label, "epoch 2/3", "accuracy 86.25", "2 min 5 s left")]))
    running = file.getvalue()
    console.print(failure_table([End(spec, State.FAILED, "Traceback:\nValueError: no")]))
    line = f"retry: {label}  lost: gone"
    for text in (running, file.getvalue(), "\n".join(unbroken(line, width))):
        assert label[-6:] in text
        assert max(map(len, text.splitlines())) <= width
    assert "".join(unbroken(line, width)).replace(" ", "") == line.replace(" ", "")
    for part in ("epoch 2/3", "accuracy 86.25", "2 min 5 s"):
        assert part in running


def test_a_baselines_costs_stand_below_its_table_and_so_do_times_that_a_busy_machine_spread() -> None:
    cell = replace(make_cell(make_spec()), training_flops=2.1e11, slowest=2.04)
    assert "□ □□□□□□ none: 23.4 M trained parameters, 12345.6 s of training, 210 GFLOPs" in shown(cell)
    assert "times of one setting differ up to 2.0-fold: a busy machine" in shown(cell)


def planned(folder: Path, epochs: int, seeds: str) -> Plan:
    bank = write_treebank(folder / "tiny")
    text = f"trial: {{data: {{folder: {bank}}}, optim: {{epochs: {epochs}}}}}\nseeds: {seeds}"
    sweep, document = load_sweep(write_sweep(folder / "s.yaml", text), [])
    store = open_store(folder / "results", must_exist=False)
    return make_plan(INLINE.fitted_sweep(sweep), document, store, Lookup(offline=True))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, 2, "[0, 1]")


def test_the_plan_says_what_is_about_to_happen(plan: Plan) -> None:
    lines = plan_lines(plan, "/results", INLINE)
    assert lines[0] == f"sweep   tiny ({plan.source})"
    assert lines[1] == "trials  2 = 1 setting x 2 seeds; 0 complete in the store, 2 to run"
    assert lines[2].startswith("work    4 epochs, 32 training sentences")
    assert lines[3] == "data    tiny (pos, conllu): 4 dev sentences"
    assert [line.partition(": ")[0] for line in lines[4:6]] == ["data    tags", lines[5]]
    assert [line.startswith("data    e.g. the/DET word") for line in lines[6:9]] == [True] * 3
    assert lines[9] == f"device  {processor_name()}: 1 trial at a time, 1 core each"
    assert lines[10] == "store   /results"


def test_a_plan_lists_its_settings_with_the_seeds_that_are_complete(plan: Plan) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(setting_table(replace(plan, to_run=plan.to_run[1:])))
    assert [line.split() for line in captured.get().splitlines()] == [
        ["setting", "seeds", "complete"],
        ["□", "□□□□□□", "none", "1", "of", "2"],
    ]


def test_without_a_terminal_every_ended_trial_is_one_plain_line(plan: Plan) -> None:
    file, (spec, other) = io.StringIO(), plan.to_run
    with LiveDisplay(plan, Console(file=file, width=40)) as display:
        for trial in (spec, other):
            display.started(trial, 1)
        display.evaluated(spec, make_record(score=0.8765))
        display.ended(End(spec, State.COMPLETED))
        display.ended(End(other, State.FAILED, "Traceback\nValueError: [no] such thing"))
    first, second = file.getvalue().splitlines()
    assert first.startswith(f"1/2 completed {spec.label}  accuracy 87.65 (best epoch)  ETA ")
    assert second == f"2/2 failed    {other.label}  ValueError: [no] such thing"  # and no time left


def test_where_models_differ_each_line_and_the_best_scores_name_them(plan: Plan) -> None:
    other = make_spec(model={"name": "owner/large", "revision": "b" * 64})
    mixed, file = replace(plan, trials=(plan.trials[0], other), to_run=(plan.trials[0], other)), io.StringIO()
    assert (plan.label(other), mixed.label(other)) == (other.label, f"owner-large_{other.label}")
    with LiveDisplay(mixed, Console(file=file, width=200)) as display:
        display.started(other, 1)
        display.evaluated(other, make_record(score=0.5))
        display.ended(End(other, State.COMPLETED))
        assert f"1/2 completed owner-large_{other.label}" in file.getvalue()
        assert [column.header.plain for column in display._best_table().columns[1:]] == ["tiny, owner/large"]  # type: ignore[union-attr]


def test_on_a_terminal_the_display_shows_running_trials_and_the_best_scores(plan: Plan) -> None:
    file, (spec, other) = io.StringIO(), plan.to_run
    with LiveDisplay(plan, Console(file=file, force_terminal=True, width=100, color_system=None)) as display:
        display.started(spec, 1)
        display.evaluated(spec, make_record(score=0.8765))
        display.ended(End(spec, State.COMPLETED))
        display.started(other, 1)
        display.evaluated(other, make_record(score=0.5, last=False))
    text = file.getvalue()
    for part in ("1 of 2 trials", other.label, "epoch 1/2", "accuracy 50.00", "best accuracy of this launch", "87.65"):
        assert part in text


def test_a_long_set_up_is_shown_and_without_a_terminal_printed_until_the_first_record(plan: Plan) -> None:
    (spec, _), work = plan.to_run, SetUpWork("encoding en_ewt train", 2_000, "sentences", 1_200)
    lines, screen = io.StringIO(), io.StringIO()
    for console in (Console(file=lines), Console(file=screen, force_terminal=True, width=140, color_system=None)):
        with LiveDisplay(plan, console) as display:
            display.started(spec, 1)
            display.preparing(spec, work)
            display.preparing(spec, work)  # too soon for another line
            if console.is_terminal:
                console.print(display._draw())
            display.evaluated(spec, make_record(last=False))
    said = "encoding en_ewt train: 1,200 of 2,000 sentences"
    assert lines.getvalue().splitlines() == [f"set-up: {spec.label}  {said}"]
    assert said in screen.getvalue()


def test_in_a_notebook_one_output_shows_the_trials_and_none_is_a_line_of_its_own(plan: Plan) -> None:
    console, shown, (spec, other) = SafeConsole(), list[dict[str, str]](), plan.to_run
    console.output = NotebookOutput(shown.append)
    with LiveDisplay(plan, console) as display:
        display.started(spec, 1)
        display.evaluated(spec, make_record(score=0.8765))
        display.ended(End(spec, State.COMPLETED))
        display.started(other, 1)
    text = shown[-1]["text/plain"]
    assert all(part in text for part in ("1 of 2 trials", other.label, "best accuracy of this launch", "87.65"))
    assert spec.label not in text
