"""A trial from spec to records: reproducible to the bit, sensitive to every field, honest about its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.builders import merged, write_tagged_treebank
from tests.examples import each
from tests.trials.conftest import CPU, TrialMaker, numbers, records_of
from trials.cache.encoding import encode_for
from trials.errors import DivergedError
from trials.run import run_trial
from trials.training.new_training import new_model, train_subset

# A change of every field, and nothing else, for `test_every_field_...`; dotted as in a sweep.
CHANGES: dict[str, dict[str, Any]] = {
    "seed": {"seed": 1},
    "precision": {"precision": "bf16"},
    "max_length": {"max_length": 8},
    "lowercase": {"lowercase": True},
    "eval_every": {"eval_every": 0.5},
    "dropout": {"dropout": 0.4},
    "frozen_dropout": {"frozen_dropout": False},
    "train_size": {"train_size": 20},
    "freeze.layers": {"freeze": {"strategy": "last_k", "depth": 1}},
    "freeze.embeddings": {"freeze": {"strategy": "first_k", "depth": 1, "embeddings": True}},
    "optim.lr": {"optim": {"lr": 2e-2}},
    "optim.head_lr": {"optim": {"head_lr": 5e-2}},
    "optim.batch_size": {"optim": {"batch_size": 5}},
    "optim.epochs": {"optim": {"epochs": 3}},
    "optim.weight_decay": {"optim": {"weight_decay": 0.5}},
    "optim.warmup": {"optim": {"warmup": 0.5}},
    "optim.max_grad_norm": {"optim": {"max_grad_norm": 0.01}},
    "optim.schedule": {"optim": {"schedule": "constant"}},
    "optim.layer_decay": {"optim": {"layer_decay": 0.5}},
    "batching": {"batching": "length"},
    "score": {"score": "macro_f1"},
    "subset_seed": {"subset_seed": 5},
    "init_seed": {"init_seed": 5},
    "order_seed": {"order_seed": 5},
    "thaw_every": {"thaw_every": 1},
    "lora": {"lora": {"rank": 2}},
}
# (train, dev) an epoch of BASE. Raise SCHEMA_VERSION where not only the draws change but what they are drawn from.
GOLDEN = [(1.0750363, 0.7328690), (0.6415948, 0.5529825)]
BASE: dict[str, Any] = {"freeze": {"strategy": "first_k", "depth": 1}}


def test_the_same_spec_gives_the_same_bits_twice_and_in_any_order(make_trial: TrialMaker) -> None:
    one, other = make_trial(**BASE, train_size=8), make_trial("bert", seed=7, train_size=8)
    first = numbers(records_of(one)), numbers(records_of(other))
    torch.rand(5)  # someone else draws from the global stream
    second = numbers(records_of(other)), numbers(records_of(one))
    assert first == second[::-1]


def test_two_trials_that_take_turns_in_one_process_do_not_disturb_each_other(make_trial: TrialMaker) -> None:
    specs = make_trial(**BASE, train_size=8), make_trial(seed=1, train_size=8)
    alone = [numbers(records_of(spec)) for spec in specs]
    turns = list(zip(*(run_trial(spec, device=CPU) for spec in specs), strict=True))
    assert [numbers(list(records)) for records in zip(*turns, strict=True)] == alone


GENTLE = {**BASE, "optim": {"lr": 1e-3}}  # at BASE's own rate every metric of the tiny corpus is soon 1


@pytest.fixture(scope="module")
def gentle(make_any_trial: TrialMaker) -> tuple[str, object]:
    """The unchanged trial's id and its numbers."""
    spec = make_any_trial(**GENTLE)
    return spec.trial_id, numbers(records_of(spec))


@each("field", CHANGES, quick=4)
def test_every_field_changes_the_trial_and_its_numbers(
    field: str, gentle: tuple[str, object], make_trial: TrialMaker
) -> None:
    changed = make_trial(**merged(GENTLE, CHANGES[field]))
    assert gentle[0] != changed.trial_id
    assert gentle[1] != numbers(records_of(changed))


def test_each_seed_draws_its_own_source(make_trial: TrialMaker) -> None:
    specs = [make_trial(**BASE, **own) for own in ({}, {"init_seed": 5}, {"order_seed": 5})]
    heads = [new_model(spec, 4, CPU).model.state_dict() for spec in specs]
    subsets = [train_subset(spec, encode_for(spec).train).tolist() for spec in specs]
    differs = [any(not torch.equal(heads[0][name], head[name]) for name in head) for head in heads]
    assert differs == [False, True, False]
    assert subsets[0] == subsets[1] == subsets[2]


def test_the_tiny_models_losses_are_the_golden_ones(make_trial: TrialMaker) -> None:
    losses = [(r.train_loss, r.dev_loss) for r in records_of(make_trial(**BASE))]
    assert losses == [pytest.approx(pair, abs=2e-4) for pair in GOLDEN]


def test_records_count_steps_epochs_and_sentences(make_trial: TrialMaker) -> None:
    records = records_of(make_trial(train_size=22, eval_every=0.5, optim={"batch_size": 4, "epochs": 2}))
    assert [r.step for r in records] == [3, 6, 9, 12]
    assert [r.epoch for r in records] == [0.5, 1.0, 1.5, 2.0]
    assert [r.examples_seen for r in records] == [12, 22, 34, 44]
    assert [len(r.step_losses) for r in records] == [3, 3, 3, 3]
    assert [r.last for r in records] == [False, False, False, True]


def test_test_is_scored_once_at_the_end_with_the_weights_of_the_best_dev_score(
    make_trial: TrialMaker, treebank: Path, tmp_path: Path
) -> None:
    # Test is dev in another order, so with the best weights it must have the best dev score.
    blocks = (treebank / "dev.conllu").read_text().strip().split("\n\n")
    (tmp_path / "test.conllu").write_text("\n\n".join(reversed(blocks)) + "\n\n")
    files = {split: str(treebank / f"{split}.conllu") for split in ("train", "dev")}
    data = {"folder": None, **files, "test": str(tmp_path / "test.conllu")}
    records = records_of(make_trial(data=data, seed=2, eval_every=0.5, optim={"lr": 0.1, "epochs": 4}))
    best = max(r.score for r in records)
    assert records[-1].score < best
    assert [r.test_score for r in records] == [None] * 7 + [best]


def test_a_loss_that_is_no_number_ends_the_trial_as_diverged(make_trial: TrialMaker) -> None:
    with pytest.raises(DivergedError, match=r"training loss is (nan|inf) at step \d+; lower optim.lr"):
        records_of(make_trial(optim={"lr": 1e30}))


def test_the_reports_say_which_document_each_sentence_is_from(make_trial: TrialMaker, tmp_path: Path) -> None:
    folder = write_tagged_treebank(tmp_path / "documents", dev=6, test=4)
    dev = next(folder.glob("*dev*"))
    sentences = dev.read_text().split("\n\n")
    dev.write_text("\n\n".join(f"# newdoc\n{each}" if i in (0, 2, 5) else each for i, each in enumerate(sentences)))
    spec = make_trial(data={"folder": str(folder)}, train_size=8, freeze={"strategy": "first_k", "depth": 2})
    for predictions in ("none", "all"):  # the second trial maps the encoded corpus
        *_, last = run_trial(spec, device=CPU, predictions=predictions)
        assert [report.documents for report in last.reports] == [(0, 0, 1, 1, 1, 2), ()]
