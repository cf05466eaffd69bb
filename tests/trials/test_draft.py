"""A trial in a person's words becomes a spec, or every reason why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import make_spec, write_conllu, write_treebank
from tests.examples import each
from trials.draft import DraftError, FreezeDraft, Lookup, TrialDraft
from trials.errors import DataError
from trials.settings import EMBEDDINGS_ALONE, FreezeSpec
from trials.sources.corpus_draft import DataDraft
from trials.spec import TrialSpec

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


def invalid(**settings: Any) -> str:
    with pytest.raises(ValidationError) as error:
        TrialDraft.model_validate({"data": "UD_English-EWT-sample"} | settings)
    return str(error.value)


# --- Trials


def test_a_draft_says_little_and_a_spec_all(folder: Path) -> None:
    spec = resolve(folder)
    assert (spec.model.name, spec.model.n_layers, spec.train_size) == ("starter", 6, 8)
    assert spec.freeze.is_baseline
    assert (spec.task, spec.seed, spec.optim.epochs) == ("pos", 0, 5)


def test_what_a_draft_says_is_what_the_spec_says(folder: Path) -> None:
    spec = resolve(folder, seed=3, train_size=4, optim={"lr": 1e-3}, lowercase=True, dropout=0.2, eval_every=0.5)
    assert (spec.seed, spec.train_size, spec.optim.lr, spec.lowercase) == (3, 4, 1e-3, True)
    assert (spec.dropout, spec.eval_every) == (0.2, 0.5)


def test_a_lookup_serves_many_drafts(folder: Path) -> None:
    lookup = Lookup()
    drafts = [TrialDraft(data=DataDraft(folder=str(folder)), seed=seed) for seed in (0, 1)]
    first, second = (draft.resolve(lookup) for draft in drafts)
    assert first.data is second.data
    assert first.model is second.model


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    error = refusal(folder, train_size=9, max_length=129, freeze={"strategy": "first_k", "depth": 7})
    assert [path for path, _ in error.problems] == [("freeze", "depth"), ("max_length",), ("train_size",)]
    assert error.exit_code == 2


def test_an_absent_corpus_and_an_absent_model_are_told_together(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none", model=str(tmp_path / "no-model"))
    assert [path for path, _ in error.problems] == [("data",), ("model",)]
    assert error.exit_code == 3


def test_an_unknown_task_is_answered_with_the_known_ones() -> None:
    assert "unknown 'pso', did you mean 'pos'? Known: " in invalid(task="pso")


# --- Corpora


def test_a_bare_word_is_a_bundled_sample() -> None:
    draft = TrialDraft.model_validate({"data": "UD_Naija-NSC-sample"})
    assert draft.data == DataDraft(bundled="UD_Naija-NSC-sample")
    assert draft.data.resolve().name == "UD_Naija-NSC-sample"


def test_a_corpus_is_called_as_one_likes_else_by_its_folder(folder: Path) -> None:
    assert DataDraft(folder=str(folder)).resolve().name == "tiny"
    assert DataDraft(folder=str(folder), name="mine").resolve().name == "mine"


def test_a_folder_may_be_named_from_where_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert DataDraft(folder="tiny").resolve() == DataDraft(folder=str(folder)).resolve()


def test_a_folder_needs_one_file_a_split(folder: Path) -> None:
    write_conllu(folder / "more-train.conllu", [[("a", "DET")]])
    with pytest.raises(DataError) as error:
        DataDraft(folder=str(folder)).resolve()
    found = "needs one file with 'train' in its name, found more-train.conllu, train.conllu."
    way_out = (
        "Rename them, or give the files as `train`, `dev` and `test`, several in a list (--train FILE, repeated for "
        "several)."
    )
    assert str(error.value) == f"{folder}: {found} {way_out}"


def test_a_folder_without_dev_is_refused(folder: Path) -> None:
    (folder / "dev.conllu").unlink()
    with pytest.raises(
        DataError, match=r"needs one file with 'dev' in its name, found none \(valid, val, validation, "
    ):
        DataDraft(folder=str(folder)).resolve()


@each(
    "data, message",
    [
        ({}, "name the corpus in one way: `bundled`, `folder`, `train` and `dev`, `ud`, or `hub`"),
        ({"folder": "a", "train": "b", "dev": "c"}, "name the corpus in one way"),
        ({"folder": "a", "bundled": "UD_Naija-NSC-sample"}, "name the corpus in one way"),
        ({"train": "a"}, "or `held_out: 0.1` instead of `dev`; `test` may be left out"),
        ({"test": "a"}, "or `held_out: 0.1` instead of `dev`; `test` may be left out"),
        ("UD_English-EWT-smaple", "unknown 'UD_English-EWT-smaple', did you mean 'UD_English-EWT-sample'?"),
        ({"folder": "a", "format": "conll"}, "unknown 'conll', did you mean 'conllu'?"),
        ({"folder": "a", "name": "a/b"}, "String should match pattern"),
    ],
)
def test_a_corpus_that_is_named_wrongly_is_refused(data: object, message: str) -> None:
    assert message in invalid(data=data)


# --- Freezing


@each(
    "draft, strategy, layers",
    [
        ({"strategy": "none"}, "none", ()),
        ({"strategy": "all_encoder"}, "all_encoder", (0, 1, 2, 3, 4, 5)),
        ({"strategy": "alternating"}, "alternating", (0, 2, 4)),
        ({"strategy": "first_k", "depth": 2}, "first_k", (0, 1)),
        ({"strategy": "last_k", "depth": 2}, "last_k", (4, 5)),
        ({"strategy": "first_k", "depth": 0}, "none", ()),
        ({"strategy": "layers", "layers": [5, 0]}, "layers", (0, 5)),
        ({"strategy": "layers", "layers": []}, "none", ()),
    ],
)
def test_a_freeze_becomes_layers_of_the_model(draft: dict[str, Any], strategy: str, layers: tuple[int, ...]) -> None:
    found = FreezeDraft.model_validate(draft).resolve(MODEL)
    assert found == FreezeSpec(strategy=strategy, layers=layers, embeddings=False)


def test_freezing_only_the_embeddings_is_no_baseline() -> None:
    found = FreezeDraft(strategy="none", embeddings=True).resolve(MODEL)
    assert (found.embeddings, found.is_baseline) == (True, False)


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


@pytest.mark.parametrize(
    "draft",
    [
        {"strategy": "none", "depth": -1},
        {"strategy": "all_encoder", "depth": -1},
        {"strategy": "alternating", "depth": -1},
        {"strategy": "first_k", "depth": -1, "embeddings": False},
    ],
)
def test_a_depth_that_means_nothing_is_refused_in_words(draft: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="`depth: -1`"):
        FreezeDraft.model_validate(draft)


@pytest.mark.parametrize("strategy", ["first_k", "last_k"])
def test_a_depth_of_minus_one_freezes_the_embeddings_only(strategy: str) -> None:
    found = FreezeDraft(strategy=strategy, depth=-1).resolve(MODEL)
    assert found == FreezeSpec(strategy="none", layers=(), embeddings=True)
    assert found.label == "embeddings"


@pytest.mark.parametrize("score", ["span_f1", "acuracy"])
def test_a_score_that_the_task_does_not_measure_is_refused_with_those_it_does(score: str) -> None:
    assert f"score: unknown {score!r}" in invalid(score=score)
    assert "Known: accuracy, macro_f1. (pos measures these.)" in invalid(score=score)


@each(
    "model, message",
    [
        ({}, "name the model in one way: `folder` or `hub`"),
        ({"folder": "a", "hub": "b/c", "revision": "main"}, "name the model in one way"),
        ({"folder": "a", "revision": "main"}, "`revision` is of a repository of the `hub`"),
        ("hub:", "'hub:' lacks its name. Write hub:OWNER/NAME"),
    ],
)
def test_a_model_that_is_named_wrongly_is_refused(model: object, message: str) -> None:
    assert message in invalid(model=model)


@each(
    "draft, path, message",
    [
        ({"strategy": "first_k"}, "depth", "first_k needs a depth: 0 to 6."),
        (
            {"strategy": "last_k", "depth": 7},
            "depth",
            "7 is not a depth of last_k in model 'starter' of 6 layers: 0 to 6.",
        ),
        (
            {"strategy": "alternating", "depth": 2},
            "depth",
            "2 is not a depth of alternating in model 'starter' of 6 layers: only 3.",
        ),
        (
            {"strategy": "layers", "layers": [0, 6]},
            "layers",
            "[6] is beyond layer 5, the last of model 'starter'.",
        ),
    ],
)
def test_a_freeze_the_model_does_not_have_is_refused(draft: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(DraftError) as error:
        FreezeDraft.model_validate(draft).resolve(MODEL)
    assert error.value.problems == [((path,), message)]


@each(
    "freeze, message",
    [
        ("frist_k", "unknown 'frist_k', did you mean 'first_k'?"),
        ({"strategy": "layers"}, "`layers: [...]` and `strategy: layers` go together"),
        ({"strategy": "none", "layers": [0]}, "`layers: [...]` and `strategy: layers` go together"),
        ({"strategy": "layers", "layers": [0], "depth": 1}, "`depth` is the length of `layers`; leave it out"),
        ({"strategy": "first_k", "depth": -2}, "greater than or equal to -1"),
        ({"strategy": "layers", "layers": [-1]}, "greater than or equal to 0"),
    ],
)
def test_a_freeze_that_is_said_wrongly_is_refused(freeze: object, message: str) -> None:
    assert message in invalid(freeze=freeze)


@each("changes, problem", [
        ({"optim": {"epochs": 10_001}}, "optim.epochs: 10,001 epochs are more than 10,000, the most."),
        ({"optim": {"epochs": 10**30}}, "optim.epochs: 1,000,"),
        ({"eval_every": 1e-300}, "eval_every: 1,000,000,000,000,000,000 evaluations are more than 100,000, the most."),
        ({"optim": {"batch_size": 10**9}}, "optim.batch_size: 1,000,000,000 sentences in a batch are more"),
        ({"lora": {"rank": 10**9}}, "lora.rank: 1,000,000,000 dimensions of an adapter are more"),
    ])  # fmt: skip
def test_a_number_that_no_trial_can_have_is_refused_with_its_bound(changes: dict[str, Any], problem: str) -> None:
    draft = TrialDraft.model_validate({"data": "UD_English-EWT-sample"} | changes)
    with pytest.raises(DraftError) as error:
        draft.resolve(Lookup(offline=True))
    assert problem in str(error.value)
