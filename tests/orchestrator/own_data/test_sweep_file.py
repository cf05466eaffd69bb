"""The sweep file that a question becomes is one that `launch` takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.config.yaml_document import Document
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import guess_corpus
from orchestrator.own_data.question import NOTHING, SEEDS, Question, SweepFile, recipe, sweep_name
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import declared_sweep
from orchestrator.sweeps.sweep import SweepSpec
from trials.corpora.corpus import Corpus, Item, Sentence, Text
from trials.draft import Lookup
from trials.errors import RefusedError
from trials.sources.places.model_draft import ModelDraft
from trials.spec import TrialSpec
from trials.tasks.task_corpus import read_corpus

LOOKUP = Lookup(offline=True)
MODEL = LOOKUP.model(ModelDraft(folder="starter"))


@pytest.fixture(scope="module")
def question() -> Question:
    corpus = guess_corpus(ChooseOptions(data="UD_Naija-NSC-sample"), LOOKUP)
    settings = recipe(MODEL, read_corpus("pos", expanded(Question(corpus, "starter", {}, 1.0).sweep_text())[0].data))
    return Question(corpus, "starter", settings, 0.5, 400, command="permafrost choose UD_Naija-NSC-sample")


def expanded(text: str) -> list[TrialSpec]:
    document = Document.of_text(Path("my.yaml"), text)
    return expand(declared_sweep(document), document, LOOKUP)


def test_the_starter_reads_texts_at_a_rate_at_which_it_learns_and_a_small_train_split_for_longer() -> None:
    texts: list[Item] = [Text(f"text {n}", None, str(n % 2)) for n in range(20)]
    words: list[Item] = [Sentence(("a", "b"), ("X", "Y"))] * 20
    of_texts, of_words = (recipe(MODEL, Corpus(items, items, []))["optim"] for items in (texts, words))
    assert (of_texts["lr"], of_texts["warmup"], of_texts["epochs"], "head_lr" in of_texts) == (3e-4, 0.1, 5, False)
    assert (of_words["lr"], of_words["head_lr"], of_words["epochs"]) == (1e-3, 5e-3, 3)
    large = Corpus(texts * 251, [], [])
    assert [recipe(MODEL, large, size)["optim"]["epochs"] for size in (None, 5_000)] == [3, 5]


def test_it_tries_nothing_the_embeddings_and_every_depth_with_the_seeds_that_are_proposed(question: Question) -> None:
    trials = expanded(question.sweep_text())
    depths = [(0, False), *((depth, True) for depth in range(MODEL.n_layers + 1))]
    assert sorted({(spec.freeze.depth, spec.freeze.embeddings) for spec in trials}) == depths
    assert {spec.seed for spec in trials} == set(range(SEEDS))
    assert {(spec.train_size, spec.lowercase) for spec in trials} == {(400, True)}
    goal = declared_sweep(Document.of_text(Path("my.yaml"), question.sweep_text())).goal
    assert goal is not None
    assert goal.plan.tolerance == 0.5


def test_each_depth_may_have_a_rate_of_its_own_and_the_file_tells_them(question: Question, tmp_path: Path) -> None:
    rates = {depth: 1e-4 * (2 + depth) for depth in range(NOTHING, 7)}
    rated = replace(question, rates=rates)
    trials = expanded(rated.sweep_text())
    found = {NOTHING if spec.freeze.is_baseline else spec.freeze.depth: spec.optim.lr for spec in trials}
    assert found == rates
    SweepFile(tmp_path / "my.yaml").write(rated.sweep_text())
    assert SweepFile(tmp_path / "my.yaml").rates() == rates


def test_rates_are_tried_on_seeds_that_no_answer_uses(question: Question) -> None:
    tried = expanded(question.rates_text([1e-4, 1e-3], [2, 4]))
    assert {(spec.freeze.depth, spec.optim.lr) for spec in tried} == {(d, lr) for d in (0, 2, 4) for lr in (1e-4, 1e-3)}
    assert not {spec.seed for spec in tried} & {spec.seed for spec in expanded(question.sweep_text())}


OTHER = "permafrost choose --tolerance 5 UD_Naija-NSC-sample"


def test_another_question_may_replace_a_file_unless_somebody_edited_it(question: Question, tmp_path: Path) -> None:
    path, text = tmp_path / f"{question.name}.yaml", question.sweep_text()
    SweepFile(path).write(text)
    for asked in (question.command, OTHER):
        SweepFile(path).refuse_other(asked)
    assert [SweepFile(path).is_for(asked) for asked in (question.command, OTHER)] == [True, False]
    for before, after in (("tolerance: 0.5", "tolerance: 2"), ("# As it was", "# as it was"), ("seeds", "# seeds")):
        path.write_text(text.replace(before, after, 1))
        with pytest.raises(RefusedError, match="is not as `permafrost choose` wrote it for this question"):
            SweepFile(path).refuse_other(OTHER)


@pytest.mark.parametrize(
    ("words", "is_alike"), [("--tolerance 7.5", True), ("", True), ("--tolerance 7.5 --held-out 0.3", False)]
)
def test_the_trials_of_a_question_serve_it_at_another_tolerance(
    words: str, is_alike: bool, question: Question, tmp_path: Path
) -> None:
    path = tmp_path / "my.yaml"
    SweepFile(path).write(replace(question, command=f"{question.command} --tolerance 1").sweep_text())
    assert SweepFile(path).is_for_any_tolerance(f"{question.command} {words}".strip()) is is_alike
    assert not SweepFile(tmp_path / "other.yaml").is_for_any_tolerance(question.command)


def test_a_file_with_a_comment_train_size_or_weights_of_its_own_is_kept_and_an_edited_one_left_to_launch(
    question: Question, tmp_path: Path
) -> None:
    path = tmp_path / "my.yaml"
    SweepFile(path).write(replace(question, train_size=100).sweep_text() + "keep: weights\n# mine\n")
    SweepFile(path).refuse_edited(replace(question, train_size=SweepFile(path).train_size()))
    assert "\n# mine\n" in path.read_text()
    path.write_text(question.sweep_text().replace("tolerance: 0.5", "tolerance: 2"))
    with pytest.raises(RefusedError, match=r"was edited since .* Run it with `permafrost launch --sweep`"):
        SweepFile(path).refuse_edited(question)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("дані жоба", "choose-дані-жоба"), ("हिन्दी²", "choose-हिन्दी-"), ("空" * 90, "choose-" + "空" * 57)],
)
def test_a_corpus_in_any_script_names_its_sweep(folder: str, name: str) -> None:
    assert SweepSpec(name=sweep_name({"folder": folder})).name == name
