"""The short form of `python -m tests.lab.fuzz`, and every input that once was a finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.sweeps.sweep import MAX_TRIALS
from tests.examples import each, examples
from tests.lab.fuzz.__main__ import main
from tests.lab.fuzz.configurations import Configuration, Configurations
from tests.lab.fuzz.environments import Environment, Environments
from tests.lab.fuzz.files import BrokenFile, Files
from tests.lab.fuzz.models import Models
from tests.lab.fuzz.names import Names

N_CONFIGURATIONS, N_FILES, N_MODELS, N_NAMES = examples(400), examples(80), examples(60), examples(100)


@pytest.fixture(scope="module")
def configurations(tmp_path_factory: pytest.TempPathFactory) -> Configurations:
    return Configurations(tmp_path_factory.mktemp("configurations"), seed=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"), seed=1)


def test_every_configuration_works_or_is_refused_with_one_message(configurations: Configurations) -> None:
    found = {n: configurations.try_out(configurations.make(n)) for n in range(N_CONFIGURATIONS)}
    assert {n: verdict.text for n, verdict in found.items() if verdict.word == "finding"} == {}
    assert {verdict.word for verdict in found.values()} == {"works", "refused"}


def test_every_broken_file_reads_or_is_refused_and_nothing_changes(files: Files) -> None:
    found = {n: files.try_out(files.make(n)) for n in range(N_FILES)}
    assert {n: verdict.text for n, verdict in found.items() if verdict.word == "finding"} == {}


def test_every_broken_model_trains_or_is_refused_by_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    models = Models(tmp_path, seed=1)
    found = {n: models.try_out(models.make(n)) for n in range(N_MODELS)}
    assert {n: verdict.text for n, verdict in found.items() if verdict.word == "finding"} == {}
    assert {verdict.word for verdict in found.values()} == {"works", "refused"}


def test_every_hostile_name_label_and_word_is_shown_escaped_or_refused(tmp_path: Path) -> None:
    names = Names(tmp_path, seed=1)
    found = {n: names.try_out(names.make(n)) for n in range(N_NAMES)}
    assert {n: verdict.text for n, verdict in found.items() if verdict.word == "finding"} == {}
    assert {verdict.word for verdict in found.values()} == {"works", "refused"}


@each("number", range(12), quick=1)
def test_in_every_environment_a_command_works_or_is_refused_in_one_line(number: int, tmp_path: Path) -> None:
    environments = Environments(tmp_path, seed=1)
    verdict = environments.try_out(environments.make(number))
    assert verdict.word != "finding", verdict.text


@pytest.mark.slow
def test_an_environment_that_names_another_cluster_does_not_redirect_a_command(tmp_path: Path) -> None:
    words = ("status", "--follow", "--cluster", "http://127.0.0.1:1")
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        verdict = Environments(tmp_path / name, seed=1).try_out(Environment("status", {name: "nonsense"}, words))
        assert "Failed to connect to Ray at address: http://127.0.0.1:1" in verdict.text


# --- Inputs that once were findings: a traceback, a hang, or a message that nobody can read

DATA = "name: a\ntrial: {data: {folder: BANK}}\n"
MERGES = "\n".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 12))
LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
WAS_FOUND = {
    "an int of nothing": (DATA + 'seeds: [!!int ""]', "s.yaml:3: not YAML: no value of int"),
    "a bool of another word": (DATA + "x: !!bool maybe", "not YAML: no value of bool"),
    "a timestamp of no time": (DATA + "x: !!timestamp x", "not YAML: no value of timestamp"),
    "a sexagesimal beyond floats": (DATA + "x: " + "9:" * 300 + "9.5", "not YAML: no value of float"),
    "digits beyond Python's limit": (DATA + "x: 0x" + "f" * 5000, "not YAML: a number of more than 64 bits"),
    "half a surrogate pair": (DATA + 'x: "\\ud800"', "not YAML: a text with the character '\\ud800'"),
    "a zero byte in a path": ('name: a\ntrial: {data: {folder: "a\\0"}}', "a text with the character '\\x00'"),
    "a terminal's colour": (DATA + 'x: "\\e[31m"', "not YAML: a text with the character '\\x1b'"),
    "a colour in a key": (DATA + '"\\e[31m": 1', "s.yaml:3: '\\x1b[31m' is not a valid key"),
    "a thousand brackets": (DATA + "x: " + "[" * 3000, "nests deeper than 50 levels"),
    "a hundred brackets": (DATA + "x: " + "[" * 100 + "]" * 100, "s.yaml:3: not YAML: nests deeper than 50 levels"),
    "a billion laughs": ("l0: &l0 [ha]\n" + LAUGHS + "\n" + DATA, "holds more than 100,000 values"),
    "a billion merges": ("m0: &m0 {lr: 1}\n" + MERGES + "\n" + DATA, "holds more than 100,000 values"),
    "a large file": (DATA + "#" * 250_000, "has more than 250,000 bytes"),
    "a large grid": (
        DATA + "space: {" + ", ".join(f"k{n}: {list(range(10))}" for n in range(9)) + "}",
        f"1,000,000,000 trials exceed the limit of {MAX_TRIALS:,} per sweep",
    ),
    "a grid behind another mistake": (
        DATA + "sedes: [1]\nspace: {" + ", ".join(f"k{n}: {list(range(10))}" for n in range(9)) + "}",
        "unknown 'sedes'",
    ),
    "many cells": (DATA + "search: {kind: random, cells: 1000000000000}", "1,000,000,000,000 trials exceed the limit"),
    "a trial of much": (DATA.replace("{data", f"{{x: {list(range(3000))}, data"), "trial: holds more than 2,000 v"),
    "many mistakes": (DATA + f"space: {{optim.lr: {list(range(-900, 0))}}}", "more mistakes."),
    "bounds beyond 64 bits": (
        DATA + "space: {seed: {int_uniform: [1.0e+30, 1.0e+31]}}\nsearch: {kind: random, cells: 1}",
        "must be a whole number of at most 64 bits",
    ),
    "bounds whose distance is infinite": (
        DATA + "space: {optim.lr: {uniform: [-1.7e+308, 1.7e+308]}}\nsearch: {kind: random, cells: 1}",
        "bounds are too large to sample between",
    ),
    "nobody's home": ("name: a\ntrial: {data: {folder: ~nobody-here/x}}", "'~nobody-here/x' is not a path"),
    "a name too long": (DATA.replace("BANK", "x" * 300), "is not a path (File name too long)"),
    "a model's name too long": (DATA.replace("{data", f"{{model: {'x' * 300}, data"), "not a path (File name"),
    "nobody's model": (DATA.replace("{data", "{model: ~nobody-here, data"), "'~nobody-here' is not a path"),
    "a long word": (DATA.replace("{data", f"{{precision: {'x' * 9000}, data"), f"precision: '{'x' * 40}...'"),
    "lines in a word": (DATA.replace("{data", '{model: "a\\nTraceback (most", data'), "a Traceback (most"),
    "a first beyond all": (DATA.replace("BANK", "BANK, first: {train: 9223372036854775808}"), "more than 64 bits"),
    "a goal at even odds": (
        DATA + "space: {freeze: [none, {strategy: first_k, depth: 1}]}\nseeds: [0, 1, 2]\n"
        "goal: {choose_depth: {tolerance: 1, confidence: 0.5}}",
        "s.yaml:5: goal.choose_depth.confidence: must be above 0.5",
    ),
    "a grid without end of one mistake": (
        DATA + "space: {freeze: [{strategy: first_k, depth: {int_uniform: [1, layers]}}], lowercased: [true],\n"
        "  cases: [{optim.lr: {int_uniform: [1, 9223372036854775807]}}]}",
        "s.yaml:3: space.lowercased[0]: unknown 'lowercased'",
    ),
    "an endless file": ("name: a\ntrial: {data: {train: /dev/zero, dev: /dev/zero, format: conllu}}", "regular file"),
}  # fmt: skip


@each("name", WAS_FOUND, quick=12)
def test_a_configuration_that_was_a_finding_is_refused(name: str, configurations: Configurations) -> None:
    text, words = WAS_FOUND[name]
    content = text.replace("BANK", str(configurations.folder / "bank")).encode()
    verdict = configurations.try_out(Configuration("attack", content))
    assert verdict.word == "refused", verdict.text
    assert words in verdict.text.replace(str(configurations.folder), "").replace("settings.yaml", "s.yaml")


BROKEN = {
    "tsv": (b"text\x1b[31m\tlabel\n", "Known: label, text\\x1b[31m."),
    "manifest.json": (b"[" * 100_000, ""),
    "presence": (b'{"a":' * 100_000, ""),
    "claim": (b'{"a":' * 100_000, ""),
    "suggestion": (
        b'{"name": "a", "time": 1, "source": "", "trials": [], "number": Infinity, "parameters": {}}',
        "not a readable plan",
    ),
}


@each("kind", BROKEN)
def test_a_file_that_was_a_finding_is_none(kind: str, files: Files) -> None:
    content, words = BROKEN[kind]
    verdict = files.try_out(BrokenFile(kind, content))
    assert (verdict.word != "finding", words in verdict.text) == (True, True), verdict.text


@pytest.mark.slow
def test_the_long_form_counts_outcomes_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ["--configurations", "10", "--files", "8", "--models", "2", "--environments", "1", "--names", "5"]
    assert main([*numbers, "--seed", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (sum(told["outcomes"].values()), told["findings"]) == (26, [])
