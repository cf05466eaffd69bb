"""Names without an exact version: looked up at each plan, said, stored, and compared with the last launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store import ResultStore
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import write_sweep, write_tagged_treebank
from tests.hub_repos import model, point_at
from tests.servers import HubRepo, HubServer
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup


@pytest.fixture
def repo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubRepo]:
    folder = save_tiny_model("distilbert", tmp_path / "made")
    with HubServer(model("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})) as server:
        point_at(server, monkeypatch, tmp_path)
        monkeypatch.chdir(tmp_path)
        write_tagged_treebank(tmp_path / "bank")
        yield server.repos["models", "acme/tiny"]


def planned(store: ResultStore, name: str = "acme/tiny", *, offline: bool = False) -> Plan:
    freeze = "[none, {strategy: first_k, depth: 1}]"
    text = f"trial: {{data: bank, model: {name}, max_length: 32}}\nspace: {{freeze: {freeze}}}"
    sweep, document = load_sweep(write_sweep(Path("s.yaml"), text), [])
    return make_plan(sweep, document, store, Lookup(offline=offline))


def notes(plan: Plan) -> list[str]:
    return [note for note in plan.notes if note.startswith("model acme/tiny")]


def launch(store: ResultStore) -> Plan:
    store.create()
    plan = planned(store)
    store.add_plan(plan.declared())
    return plan


def test_a_name_is_said_with_its_commit_and_every_trial_has_it(repo: HubRepo, store: ResultStore) -> None:
    plan, source = planned(store), f"hub:acme/tiny@{repo.commit()}"
    assert notes(plan) == [
        f"model acme/tiny is {source}, its newest commit. Write it with the version to keep this one."
    ]
    assert {spec.model.source for spec in plan.trials} == {source}
    assert notes(planned(store, source)) == []
    assert planned(store, source).trials == plan.trials


def test_a_commit_that_moved_is_said_and_makes_other_trials(repo: HubRepo, store: ResultStore) -> None:
    before, old = launch(store), repo.commit()
    repo.files = {**repo.files, "config.json": repo.files["config.json"].replace(b"{", b'{"note": 1, ', 1)}
    plan = planned(store)
    assert notes(plan) == [
        f"model acme/tiny is hub:acme/tiny@{repo.commit()}, its newest commit; the last launch had {old}, which makes "
        f"other settings: its 2 trials will not be mixed with these. Write hub:acme/tiny@{old} to resume it."
    ]
    assert {spec.trial_id for spec in before.trials}.isdisjoint(spec.trial_id for spec in plan.trials)


def test_a_commit_that_moved_with_the_same_files_goes_on_with_the_same_trials(
    repo: HubRepo, store: ResultStore
) -> None:
    before, old = launch(store), repo.commit()
    repo.files = {**repo.files, "README.md": b"# Now with words"}
    plan = planned(store)
    assert notes(plan)[0].endswith(f"; the last launch had {old}, whose files are the same.")
    assert [spec.trial_id for spec in before.trials] == [spec.trial_id for spec in plan.trials]
