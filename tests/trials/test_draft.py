"""A trial in a person's words becomes a spec, or every reason why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import make_spec, write_treebank
from tests.examples import each
from trials.draft import DraftError, FreezeDraft, Lookup, TrialDraft
from trials.spec import EMBEDDINGS_ALONE, FreezeSpec, TrialSpec

MODEL = make_spec().model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_treebank(tmp_path / "tiny")


def resolve(folder: Path, **settings: Any) -> TrialSpec:
    draft = TrialDraft.model_validate({"data": {"folder": str(folder)}} | settings)
    return draft.resolve(Lookup())


def refusal(folder: Path, **settings: Any) -> DraftError:
    with pytest.raises(DraftError) as error:
        resolve(folder, **settings)
    return error.value


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    error = refusal(folder, train_size=9, max_length=129, freeze={"strategy": "first_k", "depth": 7})
    assert [path for path, _ in error.problems] == [("freeze", "depth"), ("max_length",), ("train_size",)]
    assert error.exit_code == 2


EMBEDDINGS_BELOW = [{"strategy": name, "depth": -1} for name in ("none", "all_encoder", "alternating")]


@each(
    "key, value, message",
    [
        ("task", "pso", "unknown 'pso', did you mean 'pos'? Known: "),
        ("score", "span_f1", "score: unknown 'span_f1'. Known: accuracy, macro_f1. (pos measures these.)"),
        ("data", "UD_English-EWT-smaple", "unknown 'UD_English-EWT-smaple', did you mean 'UD_English-EWT-sample'?"),
        ("model", {}, "name the model in one way: `folder` or `hub`"),
        ("model", {"folder": "a", "hub": "b/c", "revision": "main"}, "name the model in one way"),
        ("model", {"folder": "a", "revision": "main"}, "`revision` is of a repository of the `hub`"),
        ("model", "hub:", "'hub:' lacks its name. Write hub:OWNER/NAME"),
        ("freeze", "frist_k", "unknown 'frist_k', did you mean 'first_k'?"),
        ("freeze", {"strategy": "layers"}, "`layers: [...]` and `strategy: layers` go together"),
        ("freeze", {"strategy": "none", "layers": [0]}, "`layers: [...]` and `strategy: layers` go together"),
        (
            "freeze",
            {"strategy": "layers", "layers": [0], "depth": 1},
            "`depth` is the length of `layers`; leave it out",
        ),
        ("freeze", {"strategy": "first_k", "depth": -2}, "greater than or equal to -1"),
        ("freeze", {"strategy": "layers", "layers": [-1]}, "greater than or equal to 0"),
        ("freeze", {"strategy": "first_k", "depth": -1, "embeddings": False}, "`depth: -1`"),
        *(("freeze", freeze, "`depth: -1`") for freeze in EMBEDDINGS_BELOW),
    ],
)
def test_what_is_said_wrongly_is_refused_with_what_is_known(key: str, value: object, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        TrialDraft.model_validate({"data": "UD_English-EWT-sample", key: value})
    assert message in str(error.value)


@each(
    "draft, strategy, layers, embeddings",
    [
        ({"strategy": "none"}, "none", (), False),
        ({"strategy": "none", "embeddings": True}, "none", (), True),
        ({"strategy": "all_encoder"}, "all_encoder", (0, 1, 2, 3, 4, 5), False),
        ({"strategy": "alternating"}, "alternating", (0, 2, 4), False),
        ({"strategy": "first_k", "depth": 2}, "first_k", (0, 1), False),
        ({"strategy": "last_k", "depth": 2}, "last_k", (4, 5), False),
        ({"strategy": "first_k", "depth": 0}, "none", (), False),
        *(({"strategy": strategy, "depth": -1}, "none", (), True) for strategy in ("first_k", "last_k")),
        ({"strategy": "layers", "layers": [5, 0]}, "layers", (0, 5), False),
        ({"strategy": "layers", "layers": []}, "none", (), False),
    ],
)
def test_a_freeze_becomes_layers_of_the_model(
    draft: dict[str, Any], strategy: str, layers: tuple[int, ...], embeddings: bool
) -> None:
    found = FreezeDraft.model_validate(draft).resolve(MODEL)
    assert found == FreezeSpec(strategy=strategy, layers=layers, embeddings=embeddings)


@pytest.mark.parametrize(
    ("draft", "setting"),
    [
        ({"strategy": "none"}, None),
        ({"strategy": "none", "depth": 0}, None),
        ({"strategy": "first_k", "depth": 0, "embeddings": True}, None),
        ({"strategy": "first_k", "depth": 2}, None),
        ({"strategy": "first_k", "depth": 0}, "`none`"),
        ({"strategy": "layers", "layers": []}, "`none`"),
        ({"strategy": "first_k", "depth": -1}, f"`{EMBEDDINGS_ALONE}`"),
        ({"strategy": "last_k", "depth": 0, "embeddings": True}, f"`{EMBEDDINGS_ALONE}`"),
        ({"strategy": "none", "embeddings": True}, f"`{EMBEDDINGS_ALONE}`"),
        ({"strategy": "layers", "layers": [], "embeddings": True}, f"`{EMBEDDINGS_ALONE}`"),
    ],
)
def test_another_spelling_of_a_setting_is_told(draft: dict[str, Any], setting: str | None) -> None:
    freeze = FreezeDraft.model_validate(draft)
    note = freeze.usual(freeze.resolve(MODEL))
    assert note == "" if setting is None else note.endswith(f"it is the setting {setting}.")


IN_STARTER = "in model 'starter' of 6 layers"


@each(
    "draft, key, message",
    [
        ({"strategy": "first_k"}, "depth", "first_k needs a depth: 0 to 6."),
        ({"strategy": "last_k", "depth": 7}, "depth", f"7 is not a depth of last_k {IN_STARTER}: 0 to 6."),
        ({"strategy": "alternating", "depth": 2}, "depth", f"2 is not a depth of alternating {IN_STARTER}: only 3."),
        ({"strategy": "layers", "layers": [0, 6]}, "layers", "[6] is beyond layer 5, the last of model 'starter'."),
    ],
)
def test_a_freeze_the_model_does_not_have_is_refused(draft: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(DraftError) as error:
        FreezeDraft.model_validate(draft).resolve(MODEL)
    assert error.value.problems == [((key,), message)]


@each("changes, problem", [
        ({"optim": {"epochs": 10_001}}, "optim.epochs: 10,001 epochs are more than 10,000, the most."),
        ({"optim": {"epochs": 10**30}}, "optim.epochs: 1,000,"),
        ({"eval_every": 1e-300}, "eval_every: 1,000,000,000,000,000,000 evaluations are more than 100,000, the most."),
        ({"optim": {"batch_size": 10**9}}, "optim.batch_size: 1,000,000,000 sentences in a batch are more"),
        ({"lora": {"rank": 10**9}}, "lora.rank: 1,000,000,000 dimensions of an adapter are more"),
    ])  # fmt: skip
def test_a_number_that_no_trial_can_have_is_refused_with_its_bound(
    changes: dict[str, Any], problem: str, folder: Path
) -> None:
    assert problem in str(refusal(folder, **changes))
