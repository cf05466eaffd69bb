"""A plan: what is complete is not run again, what failed gets its next attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.store import ResultStore
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, group_by_model, make_plan
from tests.builders import make_record, make_spec, write_conllu, write_sweep, write_treebank
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup
from trials.record import State
from trials.spec import TrialSpec

SEEDS = "seeds=[0,1,2]"  # enough that no note speaks of them


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = write_treebank(tmp_path / "tiny")
    text = f"trial: {{data: {{folder: {folder}}}}}\nspace: {{freeze: [none, all_encoder]}}\nseeds: [0, 1]"
    return write_sweep(tmp_path / "s.yaml", text)


def plan(sweep: Path, store: ResultStore, *settings: str) -> Plan:
    return make_plan(*load_sweep(sweep, list(settings)), store, Lookup(offline=True))


def end(store: ResultStore, planned: Plan, index: int, state: State) -> None:
    recorder, spec = Recorder(store), planned.trials[index]
    recorder.started(spec, planned.attempts.get(spec.trial_id, 1))
    recorder.evaluated(spec, make_record())
    recorder.ended(End(spec, state))
    recorder.close()


def test_a_new_sweep_runs_all_of_its_trials_and_then_those_that_did_not_complete(
    sweep: Path, store: ResultStore
) -> None:
    before = plan(sweep, store)
    assert set(before.to_run) == set(before.trials)
    assert {before.attempts.get(spec.trial_id, 1) for spec in before.trials} == {1}
    assert (len(before.trials), before.n_cells, before.n_skipped) == (4, 2, 0)
    recorder = Recorder(store)
    recorder.started(before.trials[0], 1)
    recorder.evaluated(before.trials[0], make_record(last=False))
    recorder.close()
    end(store, before, 1, State.COMPLETED)
    after = plan(sweep, store)
    assert (set(after.to_run), after.n_skipped) == ({*before.trials} - {before.trials[1]}, 1)
    assert after.attempts[before.trials[0].trial_id] == 2


def test_a_plan_says_once_which_tags_dev_has_that_train_lacks_unless_there_is_nothing_to_run(
    sweep: Path, store: ResultStore
) -> None:
    assert plan(sweep, store, SEEDS).notes == ()
    write_conllu(sweep.parent / "tiny" / "dev.conllu", [[("the", "DET"), ("oh", "INTJ"), ("ah", "INTJ")]])
    before = plan(sweep, store)
    note = "tiny: dev has labels that train lacks, each counted as an error: INTJ (2)."
    assert plan(sweep, store, SEEDS).notes == (note,)
    for index in range(len(before.trials)):
        end(store, before, index, State.COMPLETED)
    after = plan(sweep, store)
    assert (after.to_run, after.notes) == ((), ())
    assert {spec.seed for spec in plan(sweep, store, SEEDS).to_run} == {2}  # more seeds run only the new ones


def test_a_plan_says_what_is_peculiar_to_a_model(sweep: Path, store: ResultStore, tmp_path: Path) -> None:
    model = save_tiny_model("gpt2", tmp_path / "mine")
    (note,) = plan(sweep, store, SEEDS, f"trial.model={model}", "trial.max_length=32").notes
    assert note == "mine: a decoder with causal attention; each subword sees only what stands to its left."


def test_a_corpus_runs_in_a_block_per_seed_the_shallowest_prefix_first() -> None:
    def trial(seed: int, depth: int, corpus: str) -> TrialSpec:
        freeze = {"strategy": "first_k", "layers": tuple(range(depth)), "embeddings": True} if depth else {}
        return make_spec(seed=seed, frozen_dropout=False, freeze=freeze, data={"fingerprint": corpus * 64})

    declared = [trial(seed, depth, corpus) for seed in (0, 1) for corpus in "ab" for depth in (4, 0, 2)]
    ordered = [(s.data.fingerprint[0], s.freeze.depth, s.seed) for s in group_by_model(declared)]
    assert ordered == [(corpus, depth, seed) for corpus in "ab" for seed in (0, 1) for depth in (0, 2, 4)]
