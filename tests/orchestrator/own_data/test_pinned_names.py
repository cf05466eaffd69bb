"""A model by the name that everybody types, from `choose` and `init` to the sweep file, and at each plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from orchestrator.config.console import say
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SweepFile, question_of, with_pinned_versions, write_question
from orchestrator.store import ResultStore
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import write_sweep
from tests.hub_repos import model, point_at
from tests.servers import HubRepo, HubServer, UdServer
from tests.stand_ins import treebanks
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup

ASKED = ChooseOptions(data="UD_Naija-NSC", model="tiny")


@pytest.fixture
def repo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubRepo]:
    folder = save_tiny_model("distilbert", tmp_path / "made", positions=128)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    with HubServer(model("acme/tiny", files)) as hub, UdServer(treebanks(first=100)) as ud:
        hub.moved["tiny"] = "acme/tiny"
        point_at(hub, monkeypatch, tmp_path)
        monkeypatch.setenv("PERMAFROST_UD_URL", ud.url)
        monkeypatch.chdir(tmp_path)
        yield hub.repos["models", "acme/tiny"]


def test_init_writes_the_newest_versions_and_says_them(repo: HubRepo, capsys: pytest.CaptureFixture[str]) -> None:
    trial = yaml.safe_load(write_question(ASKED, Lookup(), say).read_text())["trial"]
    assert trial["model"] == {"hub": "acme/tiny", "revision": repo.commit()}
    assert trial["data"] == {"ud": "UD_Naija-NSC", "release": "2.16"}
    said = capsys.readouterr().err
    assert f"pinned  model tiny is hub:acme/tiny@{repo.commit()}, its newest commit\n" in said
    assert "pinned  treebank UD_Naija-NSC is ud:UD_Naija-NSC@2.16, its newest release\n" in said


def test_the_same_question_again_stays_at_the_versions_of_its_file(
    repo: HubRepo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "choose-UD_Naija-NSC.yaml"
    before = question_of(ASKED, Lookup(), say).sweep_text()
    SweepFile(path).write(before)
    old, repo.files = repo.commit(), {**repo.files, "README.md": b"# Moved"}
    again = with_pinned_versions(ASKED, tmp_path, say)
    assert (again.data, again.model) == ("ud:UD_Naija-NSC@2.16", f"hub:acme/tiny@{old}")
    assert f"pinned  model hub:acme/tiny@{old}, as in {path}\n" in capsys.readouterr().err
    assert yaml.safe_load(question_of(again, Lookup(), say).sweep_text()) == yaml.safe_load(before)
    looser = with_pinned_versions(replace(ASKED, tolerance=2.0), tmp_path, say)
    assert (looser.data, looser.model) == (again.data, again.model)  # its trials serve
    other = ChooseOptions(data=ASKED.data, model=ASKED.model, held_out=0.3)
    assert with_pinned_versions(other, tmp_path, say) == other  # another question


def planned(store: ResultStore) -> Plan:
    trial = "trial: {data: UD_Naija-NSC-sample, model: acme/tiny, max_length: 32}"
    path = write_sweep(Path("s.yaml"), f"{trial}\nspace: {{freeze: [none, {{strategy: first_k, depth: 1}}]}}")
    return make_plan(*load_sweep(path, []), store, Lookup())


def test_a_plan_says_the_commit_of_a_name_and_one_that_moved_makes_other_trials(
    repo: HubRepo, store: ResultStore
) -> None:
    before, source = planned(store), f"hub:acme/tiny@{repo.commit()}"
    assert (
        f"model acme/tiny is {source}, its newest commit. Write it with the version to keep this one." in before.notes
    )
    assert {spec.model.source for spec in before.trials} == {source}
    store.create()
    store.add_plan(before.stored_plan())
    repo.files = {**repo.files, "config.json": repo.files["config.json"].replace(b"{", b'{"note": 1, ', 1)}
    after = planned(store)
    assert "its files changed since the last launch, so the 2 trials of before" in "\n".join(after.notes)
    assert {spec.trial_id for spec in before.trials}.isdisjoint(spec.trial_id for spec in after.trials)
