"""The console script: one grammar for all commands, help that can be shown, and what loads what."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

import trials
from dashboards.cli import app
from orchestrator.commands.app import COMMANDS, GROUPS, PANELS, load_command
from orchestrator.store import ResultStore
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from tests.orchestrator.store.real import Real


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("command", ["answer", "status"])
def test_a_store_and_a_sweep_by_position_are_those_of_the_options(real: Real, command: str) -> None:
    store = str(real.store)
    by_option = run(command, "--store", store, "--sweep", "small", "--json")
    assert by_option.exit_code == 0
    assert run(command, store, "small", "--json").stdout == by_option.stdout
    assert run(command, store, "--sweep", "small", "--json").stdout == by_option.stdout


@each("command", [name for name in ("answer", "status", "dashboard", "report", "compare") if name in COMMANDS])
def test_every_command_that_reads_takes_a_store_by_position_and_stop_a_sweep_as_well(real: Real, command: str) -> None:
    words = [*(["--study", "emekaeze_pos"] if command == "compare" else []), "no-such-store"]
    done = run(command, *words)
    assert (done.exit_code, "no-such-store" in done.output) == (3, True)
    for sweep in ([], ["small"], ["--sweep", "small"]):
        assert run("stop", "no-such-store", *sweep).exit_code == 3
        assert run("stop", str(real.store), *sweep).exit_code == 5  # nothing runs


def test_the_name_of_a_sweep_in_place_of_a_store_is_told(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(real.store.parent)
    monkeypatch.setattr("orchestrator.config.console.DEFAULT_STORE", real.store.name)
    for command in ("answer", "status", "report", "stop"):
        done = run(command, "small")
        assert (done.exit_code, f"`{real.store.name} small`" in done.output) == (2, True)


def test_two_different_stores_are_refused_and_a_sweep_that_a_store_lacks_ends_with_5(real: Real) -> None:
    done = run("answer", str(real.store), "--store", "other")
    assert (done.exit_code, "give one" in done.output) == (2, True)
    assert {run(command, str(real.store), "other").exit_code for command in ("answer", "status", "report")} == {5}


def test_help_lists_every_command_in_one_of_five_panels_and_what_can_be_exported() -> None:
    shown, exports = run("--help").output, run("export", "--help").output
    used = {panel for _, _, panel in (COMMANDS | GROUPS).values()}
    assert [panel for panel in PANELS if panel in used and f"─ {panel} ─" not in shown] == []
    assert [name for name in (*COMMANDS, *GROUPS) if " " not in name and f"│ {name} " not in shown] == []
    written = [name.removeprefix("export ") for name in COMMANDS if name.startswith("export ")]
    assert {"figure", "model"} <= set(written)
    assert [name for name in written if f"│ {name} " not in exports] == []


# --- The help of every command can be shown: brackets in it are not taken for markup that never ends.


RUN = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
NAMES = re.findall(r"^│ ([a-z][a-z-]+) ", RUN.invoke(app, ["--help"]).output, re.MULTILINE)


@each(
    "words",
    [
        *([name] for name in NAMES),
        ["data", "fetch"],
        *([["store", "verify"]] if "store" in GROUPS else []),
        ["export", "figure"],
        ["export", "model"],
    ],
)
def test_a_command_shows_its_help(words: list[str]) -> None:
    told = RUN.invoke(app, [*words, "--help"])
    assert told.exit_code == 0, told.output
    assert set(NAMES) == {name for name in (*COMMANDS, *GROUPS) if " " not in name}


# --- What loads what: a plan, a status and a help text come without torch, transformers or Ray.


NO_FRAMES = {"pandas", "scipy", "pyarrow", "pydantic", "numpy"}
OBJECT_STORES = {"obstore", "boto3", "botocore"}
HEAVY = {"torch", "transformers", "ray", "pandas", "datasets"}


PROGRAM = """
import sys
from importlib import import_module

def step(name, run):
    try:
        run()
    except SystemExit as ended:
        assert not ended.code, ended
    print("loaded", name, *sys.modules, file=sys.stderr)

def plan():
    sys.argv = ["launch", "--dry-run", "--sweep", sweep, "--store", store]
    launch.run("launch")

store, sweep = sys.argv[1:]
from dashboards.cli import app
step("help", lambda: app(["--help"]))
from orchestrator import launch
step("contracts", lambda: [import_module(name) for name in CONTRACTS])
step("status", lambda: app(["status", "--trials", "--store", store]))
step("plan", plan)
step("driver", lambda: [import_module(f"orchestrator.ray_engine.{name}") for name in DRIVER])
"""
DEPTHS = "space: {freeze: [none, all_encoder]}\nseeds: [0, 1, 2]"
CONTRACTS = ("trials.spec", "trials.record", "trials.draft", "orchestrator.store", "orchestrator.status")
DRIVER = ("tune_engine", "cluster", "slots", "staging", "ray_internals")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that one process has loaded after each of these steps, one after the other."""
    folder = tmp_path_factory.mktemp("loaded")
    ResultStore(folder / "store").create()
    settings = f"trial: {{data: {{folder: {write_treebank(folder / 'bank')}}}}}\n{DEPTHS}"
    words = [str(folder / "store"), str(write_sweep(folder / "s.yaml", settings))]
    program = f"CONTRACTS, DRIVER = {CONTRACTS}, {DRIVER}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (line.split() for line in done.stderr.splitlines() if line.startswith("loaded "))
    return {step: set(modules) for _, step, *modules in lines}


def test_the_list_of_commands_imports_none_of_them(loaded: dict[str, set[str]]) -> None:
    shown = loaded["help"]
    assert not shown & (HEAVY | NO_FRAMES | OBJECT_STORES)
    shown -= {"trials", "trials.plugins", "trials.plugins.import_origins"}  # where our packages are imported from
    assert not any(name.startswith(("orchestrator.store", "trials", "dashboards.commands")) for name in shown)


def test_a_store_is_listed_and_planned_against_without_frames(loaded: dict[str, set[str]]) -> None:
    assert not loaded["status"] & (HEAVY | {"scipy"})
    # What the dev split can decide is said by the code that will decide, which takes pandas and scipy.
    assert not loaded["plan"] & ((HEAVY - {"pandas"}) | OBJECT_STORES | {"optuna"})


def test_a_driver_of_ray_loads_neither_torch_nor_what_trains(loaded: dict[str, set[str]]) -> None:
    assert "ray.tune" in loaded["driver"]
    assert not loaded["driver"] & {"torch", "transformers", "trials.run"}  # seconds before Ray could start


def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help_and_the_version_that_of_the_package() -> None:
    for name, (_, summary, _) in (COMMANDS | GROUPS).items():
        assert load_command(name).help.split("\n\n")[0].replace("\n", " ") == summary
    assert run("--version").output == f"permafrost {trials.__version__}\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("answer --tolerance -1", "--tolerance -1: must be a number from 0 to 100."),
        ("report --tolerance abc", "--tolerance abc: must be a number from 0 to 100."),
        ("choose x --max-hours ''", "--max-hours '': must be a finite number."),
        ("train --seeds 1.5", "--seeds 1.5: must be a whole number of at least 1."),
        ("answer --at-best x", "--at-best: unknown 'x'. Known: lr."),
        ("status --jsn", "no such option: --jsn (Possible options: --json)."),
        ("answer a b c", "got unexpected extra argument(s) (c)."),
        ("answr", "no such command 'answr'. Did you mean 'answer'?"),
        ("export figure", "missing argument 'FIGURE'."),
    ],
)
def test_a_command_line_that_is_not_understood_is_told_in_one_line(words: str, error: str) -> None:
    result = run(*shlex.split(words))
    assert result.exit_code == 2
    assert re.fullmatch(re.escape(f"error: {error} ") + r"`permafrost.* --help` lists the \w+\.\n", result.output)


def test_every_number_of_every_command_refuses_nan_infinity_and_nothing_in_one_line() -> None:
    for name in COMMANDS:
        numbers = [param for param in load_command(name).params if param.type_descriptor.annotation in (int, float)]
        for option, value in itertools.product([param.opts[0] for param in numbers], ("nan", "inf", "-inf", "")):
            result = run(*name.split(), option, value)
            said = f"error: {option} {value or repr(value)}: must be a "
            assert (result.exit_code, result.output.startswith(said), result.output.count("\n")) == (2, True, 1)
