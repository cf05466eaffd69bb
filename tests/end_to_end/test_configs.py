"""Every YAML file of the project is loaded and planned, in full, against stand-ins for what it downloads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from orchestrator.extras.published.study import STUDIES, load_study
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.end_to_end.conftest import environment
from tests.examples import each
from tests.hub_repos import point_at
from tests.servers import HubServer, UdServer
from tests.stand_ins import hub_repos, treebanks, write_local_files
from trials.draft import Lookup
from trials.spec import TrialSpec

V = TypeVar("V")

ROOT = Path(__file__).parents[2]
SWEEPS = ROOT / "configs" / "sweeps"
COUNTS = {  # trials, cells
    "benchmark": (12, 4),
    "brown_pos": (10, 2),
    "brown_pos_demo": (6, 2),
    "emekaeze_pos": (50, 10),
    "emekaeze_pos_demo": (20, 10),
    "freezing_bert_glue": (350, 70),
    "freezing_bert_glue_demo": (32, 16),
    "kairatuly_ner": (144, 48),
    "kairatuly_ner_demo": (16, 8),
    "starter": (112, 14),
    "starter_depth": (70, 7),
    "starter_search": (540, 108),
    "your_data": (120, 12),
}
DOWNLOADS = {  # what each study names that is not on a fresh machine
    "brown_pos": ["UD_English-EWT 2.16", "model distilbert/distilbert-base-uncased"],
    "emekaeze_pos": ["UD_English-EWT 2.16", "UD_Naija-NSC 2.16", "model distilbert/distilbert-base-multilingual-cased"],
    "freezing_bert_glue": [
        "dataset nyu-mll/glue (sst2", "dataset nyu-mll/glue (cola", "model FacebookAI/roberta-base",
    ],
    "kairatuly_ner": [
        "dataset eriktks/conll2003", "dataset yeshpanovrustem/ner-kazakh", "model google-bert/bert-base-cased",
        "model google-bert/bert-base-multilingual-cased",
    ],
}  # fmt: skip


@dataclass
class Machine:
    """A machine with the servers that it sees, its caches, and the plans that were made on it.

    Attributes:
        plans: The trials of every sweep.
        predictions: What every sweep keeps of them.
    """

    hub: HubServer
    ud: UdServer
    folder: Path
    plans: dict[str, list[TrialSpec]]
    predictions: dict[str, str]

    def env(self, cache: Path) -> dict[str, str]:
        env = {name: value for name, value in environment().items() if not name.startswith("HF_")}
        env |= {"HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": str(cache / "hf"), "HF_HUB_DISABLE_XET": "1"}
        env |= {"HF_HUB_DISABLE_TELEMETRY": "1", "PERMAFROST_UD_URL": self.ud.url, "NO_PROXY": "*"}
        return env | {"PERMAFROST_CACHE": str(cache / "cache")}

    def run(self, *words: object, cache: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, cwd=self.folder, env=self.env(cache), capture_output=True, text=True)

    def plan(self, *paths: Path) -> dict[str, tuple[str, list[TrialSpec]]]:
        """What each sweep keeps, and its trials, in this process."""
        lookup, found = Lookup(), dict[str, tuple[str, list[TrialSpec]]]()
        with pytest.MonkeyPatch.context() as patch:
            point_at(self.hub, patch, self.folder)
            patch.setenv("PERMAFROST_UD_URL", self.ud.url)
            patch.chdir(self.folder)
            for path in paths:
                sweep, document = load_sweep(path, [])
                found[path.stem] = (sweep.predictions, expand(sweep, document, lookup))
        return found

    def asked(self) -> list[str]:
        return [request.path for request in (*self.hub.asked(), *self.ud.asked())]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine") / "checkout"
    write_local_files(folder)
    with HubServer(*hub_repos(tmp_path_factory.mktemp("models"))) as hub, UdServer(treebanks()) as ud:
        machine = Machine(hub, ud, folder, {}, {})
        for name, (predictions, specs) in machine.plan(*sorted(SWEEPS.glob("*.yaml"))).items():
            machine.plans[name] = specs
            machine.predictions[name] = predictions
        yield machine


def varied(specs: Iterable[TrialSpec], what: Callable[[TrialSpec], V]) -> set[V]:
    return {what(spec) for spec in specs}


def test_every_sweep_is_counted_here() -> None:
    assert {path.stem for path in SWEEPS.glob("*.yaml")} == set(COUNTS)


@each("name", COUNTS)
def test_a_sweep_has_the_trials_and_cells_it_is_meant_to_have(name: str, machine: Machine) -> None:
    specs = machine.plans[name]
    assert (len(specs), len(varied(specs, lambda spec: spec.cell_id))) == COUNTS[name]
    assert len(varied(specs, lambda spec: spec.trial_id)) == len(specs)


@each("name", sorted(set(COUNTS) - {"starter", "your_data"}))
def test_the_comment_at_the_top_tells_how_many_trials(name: str) -> None:
    top = (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8").partition("\nname:")[0]
    told = re.search(r"(\d+) trials", top)
    assert told is not None
    assert int(told[1]) == COUNTS[name][0]


@each("name", COUNTS)
def test_every_cell_has_its_baseline_in_the_same_sweep(name: str, machine: Machine) -> None:
    cells = varied(machine.plans[name], lambda spec: spec.cell_id)
    assert varied(machine.plans[name], lambda spec: spec.baseline_id) <= cells


def test_every_published_study_loads_and_has_a_sweep() -> None:
    files = {path.stem for path in (ROOT / "configs" / "published").glob("*.yaml")}
    assert files == set(STUDIES) == set(DOWNLOADS)
    for name in files:
        assert list(load_study(name).numbers())
        assert name in COUNTS


def test_hidden_test_labels_are_left_out_of_study_4(machine: Machine) -> None:
    data = varied(machine.plans["freezing_bert_glue"], lambda spec: spec.data)
    assert {one.sizes for one in data} == {(1200, 10, 0)}
    assert {one.test for one in data} == {()}
    assert all(re.fullmatch(r"hub:nyu-mll/glue/(sst2|cola)@[0-9a-f]{40}", one.source or "") for one in data)


@pytest.mark.slow  # a fresh process imports torch; that files in a cache are not asked for is in tests/trials/sources
def test_what_was_fetched_once_is_planned_again_offline_without_a_question(machine: Machine) -> None:
    machine.asked()
    words = ("--sweep", SWEEPS / "freezing_bert_glue.yaml", "--offline", "--dry-run", "--json")
    done = machine.run("-m", "orchestrator.launch", *words, cache=machine.folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["planned"] == len(machine.plans["freezing_bert_glue"])
    assert machine.asked() == []


@each("study", DOWNLOADS, quick=1)
def test_offline_and_with_an_empty_cache_a_launch_names_all_that_is_missing(
    study: str, machine: Machine, tmp_path: Path
) -> None:
    machine.asked()
    words = ("--sweep", SWEEPS / f"{study}.yaml", "--offline", "--store", tmp_path / "store")
    done = machine.run("-m", "orchestrator.launch", *words, cache=tmp_path)
    assert done.returncode == 3, done.stderr
    for name in DOWNLOADS[study]:
        assert name in done.stderr
    assert done.stderr.count("--offline forbids the download") == len(DOWNLOADS[study])
    assert "Traceback" not in done.stderr
    assert machine.asked() == []
    assert not (tmp_path / "store").exists()
