"""A trial is its content: what its id is made of, and what a spec may not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tests.builders import make_spec
from tests.examples import each
from trials.spec import LATER, SEEDS, Columns, FreezeSpec, Seeds, TrialSpec

FULL = make_spec(freeze={"strategy": "first_k", "layers": (0, 1), "embeddings": True})

# Another valid value for every field there is, by its dotted name.
OTHER: dict[str, Any] = {
    "task": "ner",
    "seed": 1,
    "init_seed": 1,
    "order_seed": 1,
    "precision": "bf16",
    "max_length": 64,
    "lowercase": True,
    "eval_every": 0.5,
    "dropout": 0.0,
    "frozen_dropout": False,
    "train_size": 201,
    "optim.lr": 1e-4,
    "optim.head_lr": 1e-4,
    "optim.batch_size": 8,
    "optim.epochs": 6,
    "optim.weight_decay": 0.1,
    "optim.warmup": 0.1,
    "optim.max_grad_norm": 2.0,
    "optim.schedule": "constant",
    "optim.layer_decay": 0.9,
    "batching": "length",
    "score": "macro_f1",
    "subset_seed": 1,
    "thaw_every": 1,
    "lora": {"rank": 4},
    "data.columns": {"tags": "xpos"},
    "data.scheme": "iob1",
    "data.label_none": "-1",
    "data.first": {"dev": 5},
    "data.held_out": 0.1,
    "data.folds": 5,
    "data.fold": 3,
    "data.source": "ud:other@1.0",
    "data.sizes": (300, 10, 0),
    "data.documents": (30, 4, 0),
    "data.notes": ("a note",),
    "model.pickle": True,
    "model.source": "hub:other/model@0",
    "data.format": "other",
    "data.fingerprint": "e" * 64,
    "data.name": "other",
    "data.train": ("other/train.conllu",),
    "data.dev": ("other/dev.conllu",),
    "data.test": ("other/test.conllu",),
    "data.mismatched": ("other/mismatched.conllu",),
    "model.revision": "b" * 64,
    "model.family": "bert",
    "model.n_layers": 7,
    "model.n_positions": 512,
    "model.name": "other",
    "model.path": "other/model",
    "freeze.strategy": "layers",
    "freeze.layers": (0,),
    "freeze.embeddings": False,
}
NO_IDENTITY = {
    "data.name", "data.train", "data.dev", "data.test", "data.mismatched", "data.source", "data.sizes", "data.notes",
    "data.documents",
    "model.name",
    "model.path", "model.source", "freeze.strategy",
}  # fmt: skip


CONSTANT = {"data.fold", "optim.embedding_updates", "freeze.rule"}  # here, or in every spec


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted names of all fields, those of nested values included."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and inner is not Columns:
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def changed(name: str) -> TrialSpec:
    """`FULL` with another value in one field."""
    part, _, key = name.rpartition(".")
    content = FULL.model_dump()
    (content[part] if part else content)[key] = OTHER[name]
    return TrialSpec.model_validate(content)


@each("name", sorted(NO_IDENTITY))
def test_names_paths_and_what_cannot_matter_are_no_part_of_the_identity(name: str) -> None:
    assert changed(name) != FULL
    assert changed(name).trial_id == FULL.trial_id


def test_everything_else_is_part_of_the_identity_and_of_a_cell_everything_but_the_seeds() -> None:
    others = {name: changed(name) for name in fields(TrialSpec) if name not in NO_IDENTITY | CONSTANT}
    assert [name for name, spec in others.items() if spec.trial_id == FULL.trial_id] == []
    assert {name for name, spec in others.items() if spec.cell_id == FULL.cell_id} == SEEDS


ALL_LAYERS = {"strategy": "all_encoder", "layers": tuple(range(6))}


@each(
    "one, other",
    [
        *(({"seed": 7, name: 7}, {"seed": 7}) for name in ("init_seed", "order_seed")),
        *(
            ({"freeze": ALL_LAYERS | {"strategy": name}}, {"freeze": ALL_LAYERS})
            for name in ("first_k", "last_k", "layers")
        ),
        ({"frozen_dropout": False}, {"frozen_dropout": True}),  # of a baseline
        ({"optim": {"lr": "1e-3"}}, {"optim": {"lr": 0.001}}),
        ({"dropout": 0}, {"dropout": 0.0}),
    ],
)
def test_the_same_trial_in_other_words_has_the_same_id(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert make_spec(**one).trial_id == make_spec(**other).trial_id


def test_the_fold_follows_from_the_seed_and_all_freezes_of_a_seed_share_it() -> None:
    data = FULL.data.model_copy(update={"folds": 5, "fold": 4})
    spec = TrialSpec.model_validate(FULL.model_dump() | {"data": data.model_dump(), "seed": 7})
    assert (spec.data.fold, spec.with_seed(13).data.fold, spec.with_rate(1e-3).data.fold) == (2, 3, 2)
    assert spec.with_seed(12).data.content() == spec.data.content() != spec.with_seed(13).data.content()
    assert spec.cell_id == spec.with_seed(13).cell_id != FULL.cell_id
    assert changed("data.fold") == FULL  # without folds there is none


def test_another_replicate_is_the_trial_that_its_seeds_declare() -> None:
    one = make_spec(init_seed=3)
    assert one.with_seeds(Seeds(5, 1, 5)).trial_id == make_spec(seed=5, init_seed=1).trial_id
    assert one.with_seed(5).trial_id == make_spec(seed=5, init_seed=3).trial_id
    of_cell = ("cell", "cell_id", "baseline_id")  # which replicates share
    assert [getattr(one.with_seed(5), name) for name in of_cell] == [getattr(make_spec(), name) for name in of_cell]


def test_the_id_of_a_spec_never_changes() -> None:
    # Golden: were it another one, every finished trial in every store would run again. Raise SCHEMA_VERSION instead.
    assert FULL.trial_id == "f4d352a7023dd48b"
    assert FULL.cell_id == "a729bd94ef522012"


def test_the_baseline_of_a_cell_freezes_nothing_and_is_its_own() -> None:
    baseline = make_spec()
    assert FULL.baseline_id == baseline.cell_id == baseline.baseline_id != FULL.cell_id
    assert changed("optim.lr").baseline_id != FULL.baseline_id
    assert changed("freeze.embeddings").baseline_id == FULL.baseline_id


@each(
    "strategy, layers, embeddings, label",
    [
        ("none", (), False, "none"),
        ("none", (), True, "embeddings"),
        ("first_k", (0, 1), False, "first 2"),
        ("last_k", (5,), True, "last 1+E"),
        ("alternating", (0, 2, 4), False, "alternating"),
        ("all_encoder", (0, 1, 2, 3, 4, 5), True, "all+E"),
        ("layers", (0, 3), False, "layers 0,3"),
    ],
)
def test_a_freeze_has_a_short_label(strategy: str, layers: tuple[int, ...], embeddings: bool, label: str) -> None:
    freeze = FreezeSpec(strategy=strategy, layers=layers, embeddings=embeddings)
    assert (freeze.label, freeze.depth) == (label, len(layers))
    assert freeze.is_baseline == (label == "none")
    assert FULL.label == f"tiny_first-2+E_n200_s0_{FULL.trial_id[:6]}"


@each(
    "freeze, message",
    [
        ({"strategy": "layers", "layers": (6,)}, "[6] is beyond the 6 layers of the model"),
        ({"strategy": "layers", "layers": (-1,)}, "[-1] is beyond the 6 layers of the model"),
        ({"strategy": "layers", "layers": (1, 0)}, "[1, 0] is not ascending without repeats"),
        ({"strategy": "layers", "layers": (1, 1)}, "[1, 1] is not ascending without repeats"),
        ({"strategy": "first_k", "layers": (1, 2)}, "[1, 2] is not what first_k freezes"),
        ({"strategy": "none", "layers": (0,)}, "[0] is not what none freezes"),
    ],
)
def test_layers_that_the_strategy_or_the_model_does_not_have_are_refused(freeze: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        TrialSpec.model_validate(FULL.model_dump() | {"freeze": freeze | {"embeddings": True}})
    assert message in str(error.value)


@each(
    "field, value",
    [
        *(("seed", -1), ("seed", 2**32), ("init_seed", 999), ("precision", "fp8"), ("max_length", 3)),
        *(("eval_every", 0), ("eval_every", 1.5), ("dropout", 1.0), ("dropout", -0.1), ("train_size", 0), ("sede", 1)),
    ],
)
def test_a_trial_that_cannot_be_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        make_spec(**{field: value})


LATER_VALUES = {
    (part, name): value for part, values in LATER.items() for name, value in values.items()
}  # what a spec means that was written before the field


@each("part, name", LATER_VALUES)
def test_a_field_that_came_later_is_left_out_of_the_identity_where_it_changes_nothing(part: str, name: str) -> None:
    content = FULL.model_dump(mode="json")
    del (content[part] if part else content)[name]
    older = TrialSpec.model_validate(content)
    assert older == FULL
    assert name not in (FULL.identity()[part] if part else FULL.identity())
    assert older.trial_id == FULL.trial_id


# --- The seeds of a trial and the integer that pairs trials by them.


OWN = st.none() | st.integers(0, 998)
ALL = st.builds(Seeds.from_settings, st.integers(0, 2**32 - 1), OWN, OWN)


@given(ALL)
def test_seeds_are_those_of_their_key_and_of_their_settings(seeds: Seeds) -> None:
    assert Seeds.from_key(seeds.key) == seeds
    assert seeds.key < 2**53  # exact as a float, in frames and in a browser
    values = seeds.settings
    assert Seeds.from_settings(values["seed"] or 0, values["init_seed"], values["order_seed"]) == seeds


@each(
    "seeds, key, label",
    [
        (Seeds.from_settings(7), 7, "7"),
        (Seeds.from_settings(7, 7, 7), 7, "7"),
        (Seeds.from_settings(0, 1, 2), 10_000_001_002, "0, init 1, order 2"),
        (Seeds.from_settings(1234, order=5), 11_234_999_005, "1234, order 5"),
    ],
)
def test_a_key_is_the_seed_or_shows_the_three(seeds: Seeds, key: int, label: str) -> None:
    assert seeds.label == Seeds.label_of(key) == label
    assert seeds.key == key
