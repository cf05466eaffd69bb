"""The frozen prefix changes the time a trial takes and nothing else, and is computed once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.examples import each
from tests.trials.conftest import CPU, TrialMaker, load_tiny, records_of, save_tiny_model
from trials.cache.encoding import encode_for
from trials.cache.node_cache import BYTES_VARIABLE
from trials.models.cut import section
from trials.models.load import family_of
from trials.prefix.files import StatesFile
from trials.prefix.rule import cached_depth, prefix_depth
from trials.prefix.states import SHORT, groups_to_run, padded_width, run_layers
from trials.record import EpochRecord
from trials.starter import model_path
from trials.tasks.task import Example
from trials.training.batching import Batch, collate

GPU = torch.device("cuda", 0)

pytestmark = pytest.mark.usefixtures("cache")

FROZEN: dict[str, Any] = {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False}


def losses(records: list[EpochRecord]) -> list[float]:
    return [loss for r in records for loss in (*r.step_losses, r.dev_loss)]


@each("depth", [3, 4], quick=1)
@each("family", ["deberta-v2", "distilbert", "modernbert", "gpt2"], quick=1)  # test_cut has all families
def test_losses_are_those_without_it(
    family: str, depth: int, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = {"strategy": "first_k", "depth": depth, "embeddings": True}
    spec = make_trial(family, freeze=freeze, frozen_dropout=False)
    kept = records_of(spec)
    monkeypatch.setenv(BYTES_VARIABLE, "0")
    whole = records_of(spec)
    assert (kept[0].prefix_layers, whole[0].prefix_layers) == (depth, 0)
    assert losses(kept) == pytest.approx(losses(whole), abs=1e-5)
    assert [r.score for r in kept] == [r.score for r in whole]
    assert kept[-1].total_params == whole[-1].total_params
    assert kept[-1].trainable_params == whole[-1].trainable_params


def test_the_states_of_an_example_have_the_same_bits_whatever_runs_beside_it(make_trial: TrialMaker) -> None:
    spec = make_trial(model=str(model_path()), **FROZEN)  # wide enough for a product to depend on its number of rows
    loaded, some = load_tiny(spec), encode_for(spec).train.examples[0]
    layers = section(loaded.model.base_model, family_of(spec.model), 0, 2)
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 20, n) for n in [3, SHORT, 100, 17, 1, 40] * 4]
    examples = [replace(some, ids=of_one, labels=of_one, types=None) for of_one in ids]

    def states(chosen: list[int]) -> Iterator[tuple[int, torch.Tensor]]:
        for group in groups_to_run([examples[i] for i in chosen], CPU, loaded.first_position):
            beside = [chosen[place] for place in group]
            of_group = run_layers(spec, layers, [examples[i] for i in beside], CPU, loaded.first_position)
            yield from zip(beside, of_group, strict=True)

    of_all = dict(states([*range(len(examples))]))
    for chosen in ([0], [3, 4], [5], [*range(1, 24, 2)]):
        assert all(torch.equal(of_one, of_all[i]) for i, of_one in states(chosen))


@each("family, depth", [("ernie", 2), ("convbert", 0)], quick=1)
def test_an_unregistered_family_uses_it_where_the_cut_model_is_the_whole_one(
    family: str, depth: int, make_trial: TrialMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_trial(model=str(save_tiny_model(family, tmp_path / family)), **FROZEN)
    kept = records_of(spec)
    monkeypatch.setenv(BYTES_VARIABLE, "0")
    assert kept[0].prefix_layers == cached_depth(spec) == depth
    assert losses(kept) == pytest.approx(losses(records_of(spec)), abs=1e-5)


def test_a_second_trial_computes_nothing_and_gives_the_bits_of_a_first_one(
    make_trial: TrialMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, spec = make_trial(**FROZEN, seed=5), make_trial(**FROZEN)
    records_of(warm)
    after_another = losses(records_of(spec))
    monkeypatch.setenv("PERMAFROST_CACHE", str(cache / "fresh"))
    assert losses(records_of(spec)) == after_another


def test_a_deeper_prefix_built_from_a_shallower_one_has_the_bits_of_one_from_ids(
    make_trial: TrialMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = make_trial(freeze={"strategy": "first_k", "depth": 3, "embeddings": True}, frozen_dropout=False)
    from_ids = losses(records_of(deep))
    monkeypatch.setenv("PERMAFROST_CACHE", str(cache / "fresh"))
    records_of(make_trial(**FROZEN))
    assert losses(records_of(deep)) == from_ids


def test_whoever_uses_the_states_of_a_train_subset_reports_what_they_took_once(make_trial: TrialMaker) -> None:
    payer, user = (make_trial(**FROZEN, subset_seed=3, seed=seed) for seed in (0, 1))
    first, second = records_of(payer), records_of(user)
    assert first[0].prefix_s == second[0].prefix_s > 0
    assert [record.prefix_s for record in (*first[1:], *second[1:])] == [0.0, 0.0]
    assert (first[0].prefix_paid_s or 0) >= first[0].prefix_s
    assert second[0].prefix_paid_s == 0.0


@each(
    "changes, depth",
    [
        (FROZEN, 2),
        ({**FROZEN, "frozen_dropout": True}, 0),  # the frozen layers' dropout is drawn anew for every batch
        ({**FROZEN, "frozen_dropout": True, "dropout": 0.0}, 2),  # ... unless there is none
        ({**FROZEN, "freeze": {"strategy": "first_k", "depth": 2}}, 0),  # the embeddings learn below
        ({**FROZEN, "freeze": {"strategy": "last_k", "depth": 2, "embeddings": True}}, 0),
        ({**FROZEN, "freeze": {"strategy": "alternating", "embeddings": True}}, 1),
        ({**FROZEN, "freeze": {"strategy": "first_k", "depth": -1}}, 0),  # a look-up costs less than its states
        ({**FROZEN, "thaw_every": 1}, 1),
        ({**FROZEN, "lora": {"rank": 2}}, 2),
        ({"freeze": {"strategy": "none", "embeddings": True}, "lora": {"rank": 2, "layers": "all"}}, 0),
    ],
)
def test_only_what_never_changes_is_a_prefix(changes: dict[str, Any], depth: int, make_trial: TrialMaker) -> None:
    assert prefix_depth(make_trial(**changes)) == depth


def test_on_a_gpu_groups_are_padded_to_few_widths_and_none_beyond_the_longest_input(make_trial: TrialMaker) -> None:
    spec, some = make_trial(model=str(model_path()), max_length=100), encode_for(make_trial()).train.examples[0]
    lengths = np.random.default_rng(0).lognormal(2.85, 0.65, 12_544).astype(int).clip(3, 100)  # as of EWT's sentences
    examples = [replace(some, ids=ids, labels=ids, types=None) for ids in map(np.zeros, lengths, repeat(np.int64))]
    groups = groups_to_run(examples, GPU, None)
    widths = {padded_width(spec, [examples[i] for i in group], GPU) for group in groups}
    assert len(widths) <= 8
    assert max(widths) == 100


def test_states_that_do_not_fit_are_computed_in_halves(make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_trial("deberta-v2")
    loaded, examples = load_tiny(spec), encode_for(spec).train.examples[:5]
    layers, tried, whole = section(loaded.model.base_model, family_of(spec.model), 0, 2), list[int](), collate
    expected = run_layers(spec, layers, examples, CPU, None)

    def small(chosen: Sequence[Example], *others: Any, **more: Any) -> Batch:
        tried.append(len(chosen))
        if len(chosen) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(chosen, *others, **more)

    monkeypatch.setattr("trials.prefix.states.collate", small)
    found = run_layers(spec, layers, examples, CPU, None)
    assert tried == [5, 2, 3, 1, 2]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_a_cache_folder_that_cannot_be_written_makes_a_trial_slower_not_wrong(
    make_trial: TrialMaker, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_trial(**FROZEN)
    whole = losses(records_of(spec))
    (tmp_path / "a-file").write_text("in the way")
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "a-file"))
    records = records_of(spec)
    assert records[0].prefix_layers == 0
    assert losses(records) == pytest.approx(whole, abs=1e-5)


def test_the_longest_unused_prefix_makes_room(
    make_trial: TrialMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records_of(make_trial(**FROZEN))
    [old] = [path for path in (cache / "prefix").iterdir() if path.is_dir()]
    taken = sum(path.stat().st_blocks * 512 for path in old.iterdir())
    monkeypatch.setenv(BYTES_VARIABLE, str(taken + 1000))
    records = records_of(
        make_trial(freeze={"strategy": "first_k", "depth": 3, "embeddings": True}, frozen_dropout=False)
    )
    assert records[0].prefix_layers == 3
    assert old not in list((cache / "prefix").iterdir())


def _fill(folder: Path, log: Path) -> None:
    """What a worker does: ask for all ten examples, and write down each one it has to compute."""

    def compute(missing: Any) -> Any:
        for i in missing:
            with log.open("a") as file:
                file.write(f"{i}\n")
            yield i, torch.full((3, 4), float(i)), 0.5

    StatesFile(folder, "train", [3] * 10, 4).fill(range(10), compute)


@pytest.mark.slow
def test_two_workers_at_once_compute_every_example_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(tmp_path, tmp_path / "log")) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(10))
    file = StatesFile(tmp_path, "train", [3] * 10, 4)
    assert all(torch.equal(file.read(i), torch.full((3, 4), float(i))) for i in range(10))


def test_a_full_disk_is_an_error_and_what_was_written_stays(tmp_path: Path) -> None:
    def compute(missing: Any) -> Any:
        yield 0, torch.ones(3, 4), 0.5
        raise OSError(28, "No space left on device")

    file = StatesFile(tmp_path, "train", [3, 3], 4)
    with pytest.raises(OSError, match="No space left"):
        file.fill([0, 1], compute)
    assert file.missing_examples([0, 1]) == [1]
