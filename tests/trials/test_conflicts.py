"""Settings that contradict each other are refused with their reason; all others run together."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from tests.builders import make_spec
from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.draft import DraftError
from trials.run import run_trial

ALL: dict[str, Any] = {"strategy": "all_encoder", "embeddings": True}
FIRST: dict[str, Any] = {"strategy": "first_k", "depth": 2}
NOTHING_TO_THAW = "nothing is frozen, so nothing can be unfrozen. Leave it out, or give it with each freeze as `cases`."
ONLY_THE_HEAD = "only the head is trained, so no layer has a learning rate."
SAYS_NOTHING = (
    "with `layers: all` every layer is trained by its adapter and none by its weights, so freezing layers has no "
    "effect. Use `layers: unfrozen`, or freeze only the embeddings."
)
NONE_LEFT = "every layer is frozen, so none is left for adapters. Freeze fewer, or use `layers: all`."
NOT_BOTH = "adapters are added when a trial starts, which excludes `thaw_every`. Leave one out."


@each(
    "settings, problems",
    [
        ({"thaw_every": 1}, [(("thaw_every",), NOTHING_TO_THAW)]),
        ({"freeze": ALL, "optim": {"layer_decay": 0.9}}, [(("optim", "layer_decay"), ONLY_THE_HEAD)]),
        ({"freeze": FIRST, "lora": {"layers": "all"}}, [(("lora",), SAYS_NOTHING)]),
        ({"freeze": {"strategy": "all_encoder"}, "lora": {}}, [(("lora",), NONE_LEFT)]),
        ({"freeze": FIRST, "lora": {}, "thaw_every": 1}, [(("lora",), NOT_BOTH)]),
        (
            {"freeze": ALL, "lora": {}, "optim": {"layer_decay": 0.5}},
            [(("optim", "layer_decay"), ONLY_THE_HEAD), (("lora",), NONE_LEFT)],
        ),
    ],
)
def test_a_contradiction_is_told_with_its_key_and_its_reason(
    settings: dict[str, Any], problems: list[tuple[tuple[str, ...], str]], make_trial: TrialMaker
) -> None:
    with pytest.raises(DraftError) as error:
        make_trial(**settings)
    assert error.value.problems == problems
    assert error.value.exit_code == 2


def test_a_spec_is_held_to_the_same_rules_as_a_draft() -> None:
    with pytest.raises(ValidationError, match="thaw_every: nothing is frozen"):
        make_spec(thaw_every=1)
    with pytest.raises(ValidationError, match="lora: every layer is frozen"):
        make_spec(freeze={"strategy": "all_encoder", "layers": tuple(range(6))}, lora={"rank": 2})


FREEZES: list[dict[str, Any]] = [
    {"strategy": "none"},
    {"strategy": "none", "embeddings": True},
    {"strategy": "first_k", "depth": 2},
    {"strategy": "first_k", "depth": -1},
    {"strategy": "last_k", "depth": 2, "embeddings": True},
    {"strategy": "alternating"},
    {"strategy": "layers", "layers": [0, 3]},
    {"strategy": "all_encoder"},
    {"strategy": "all_encoder", "embeddings": True},
]
EXTRAS: list[dict[str, Any]] = [
    {"lora": {"rank": 2}},
    {"lora": {"rank": 2, "layers": "all"}},
    {"thaw_every": 1},
    {"optim": {"layer_decay": 0.5}},
]
TOGETHER = [
    combination
    for n in range(3)  # of three, two contradict each other already
    for combination in itertools.combinations(EXTRAS, n)
    if combination[:2] != tuple(EXTRAS[:2])
]


@each("extras", TOGETHER)
@each("freeze", FREEZES, quick=1)
def test_every_combination_runs_or_is_refused(
    freeze: dict[str, Any], extras: tuple[dict[str, Any], ...], make_trial: TrialMaker
) -> None:
    settings = {key: value for extra in extras for key, value in extra.items()}
    optim = {"lr": 1e-3, "batch_size": 4, "epochs": 2} | settings.pop("optim", {})
    try:
        spec = make_trial(freeze=freeze, train_size=4, optim=optim, **settings)
    except DraftError as error:
        refused = {path[0] for path, _ in error.problems}
    else:
        refused = set()
    if refused:
        assert refused <= {"lora", "thaw_every", "optim"}
        return
    records = list(run_trial(spec, device=torch.device("cpu")))
    assert all(math.isfinite(record.train_loss) for record in records)
    assert 0 < records[-1].trainable_params <= records[-1].total_params
