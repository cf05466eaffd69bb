"""A plan says where the results of a sweep would mislead, and says nothing of a sound one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.store import open_store
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import make_plan
from tests.builders import write_conllu, write_sweep, write_tagged_treebank
from tests.examples import each
from trials.draft import Lookup

GOAL = ("space.freeze=[none,{strategy: first_k,depth: 1}]", "goal={choose_depth: {tolerance: 1}}")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    write_tagged_treebank(tmp_path / "tiny", train=20, dev=10, test=5)
    text = f"trial: {{data: {{folder: {tmp_path / 'tiny'}}}}}\nspace: {{freeze: [none, all_encoder]}}\nseeds: [0, 1, 2]"
    return write_sweep(tmp_path / "s.yaml", text)


def notes(sweep: Path, *settings: str) -> tuple[str, ...]:
    store = open_store(sweep.parent / "results", must_exist=False)
    return make_plan(*load_sweep(sweep, list(settings)), store, Lookup(offline=True)).notes


SMALL_DEV = (
    "tiny: 10 sentences of dev and ",
    " seeds show a freeze that loses nothing to be within about ",
    "if losses vary as in FreezeBench. Within 1 point takes about ",
)


@each(
    "settings, said",
    [
        ((), ()),
        (
            ("space.freeze=[none,all_encoder,{strategy: first_k,depth: 6}]",),
            ("`all` and `first 6` freeze the same layers: they are one setting.",),
        ),
        (GOAL, SMALL_DEV),
        ((GOAL[0], "goal={choose_depth: {tolerance: 60}}"), ()),
    ],
)
def test_what_would_mislead_is_said_in_one_note_and_nothing_of_a_sound_sweep(
    sweep: Path, settings: tuple[str, ...], said: tuple[str, ...]
) -> None:
    found = notes(sweep, *settings)
    assert len(found) == bool(said)
    assert [words for words in said if words not in found[0]] == []


def test_words_beyond_the_longest_input_are_counted(sweep: Path) -> None:
    write_conllu(sweep.parent / "tiny" / "dev.conllu", [[("a", "ADJ")] * 30, [("b", "NOUN")] * 4])
    cut = "tiny: `max_length: 16` cuts off at least 16 of 34 words of dev, which count as errors."
    assert cut in notes(sweep, "trial.max_length=16")
