"""A plan says where the results of a sweep would mislead, and says nothing of a sound one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.store import open_store
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import make_plan
from tests.builders import write_conllu, write_sweep, write_tagged_treebank
from tests.examples import each
from tests.trials.conftest import save_tiny_model
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


FROZEN = "space.freeze=[none,{strategy: all_encoder,embeddings: true}]"
DROPOUT = ("frozen layers run with dropout, as in transformers.Trainer",
           "about 7.0 times the work of `frozen_dropout: false` in 3 trials.")  # fmt: skip
SMALL_DEV = (
    "tiny: 10 sentences of dev and ",
    " seeds show a freeze that loses nothing to be within about ",
    "if losses vary as in FreezeBench. Within 1 point takes about ",
)


@each(
    "settings, said",
    [
        ((), ()),
        (("seeds=[0]",), ("1 seed: no loss gets an interval worth its name below 3.",)),
        ((FROZEN,), DROPOUT),
        ((FROZEN, "trial.frozen_dropout=false"), ()),
        ((FROZEN, "trial.dropout=0.0"), ()),
        (
            ("space.freeze=[none,all_encoder,{strategy: first_k,depth: 6}]",),
            ("`all` and `first 6` freeze the same layers: they are one setting.",),
        ),
        (
            ("space.freeze=[all_encoder]",),
            ("no setting trains everything, so nothing can be compared: add `none` to `freeze`.",),
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


def test_lowercase_has_to_fit_the_vocabulary(sweep: Path, tmp_path: Path) -> None:
    settings = (f"trial.model={save_tiny_model('bert', tmp_path / 'cased')}", "trial.max_length=32")
    assert notes(sweep, *settings) == ()
    (note,) = notes(sweep, *settings, "trial.lowercase=true")
    assert note.startswith("cased: tells capitals from small letters, but `lowercase: true` removes them.")
    file = save_tiny_model("bert", tmp_path / "uncased") / "tokenizer.json"
    content = json.loads(file.read_text())
    words = content["model"]["vocab"].items()
    content["model"]["vocab"] = {word if word[0] == "[" or word.lower() == word else f"<{n}>": n for word, n in words}
    file.write_text(json.dumps(content))
    found = notes(sweep, f"trial.model={file.parent}", "trial.max_length=32")
    assert "uncased: its vocabulary has no capital letters. Set `lowercase: true`." in found


def test_words_beyond_the_longest_input_are_counted(sweep: Path) -> None:
    write_conllu(sweep.parent / "tiny" / "dev.conllu", [[("a", "ADJ")] * 30, [("b", "NOUN")] * 4])
    cut = "tiny: `max_length: 16` cuts off at least 16 of 34 words of dev, which count as errors."
    assert cut in notes(sweep, "trial.max_length=16")
