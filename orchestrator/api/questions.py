"""The question about somebody's data: a corpus and a model at an exact version, with the recipe that suits both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orchestrator.config.console import Say
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import guess_corpus
from orchestrator.own_data.named_data import draft_of
from orchestrator.own_data.question import Question, sweep_name
from orchestrator.own_data.recipe import recipe
from orchestrator.own_data.sweep_file import SweepFile
from orchestrator.sweeps.corpus_words import corpus_lines
from orchestrator.sweeps.dev_resolution import folds_note
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import sweep_of_text
from orchestrator.sweeps.notes import Noted
from trials.draft import Lookup
from trials.errors import RefusedError
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, named_model
from trials.tasks.task import read_corpus


def question_of(asked: ChooseOptions, lookup: Lookup, say: Say) -> Question:
    """The question about all of train, with the corpus, model and recipe looked up, both at an exact version.

    Raises as `choose`.
    """
    corpus = guess_corpus(asked, lookup)
    data, model = DataDraft.model_validate(corpus.data), named_model(asked.model)
    data = data.pinned(corpus.spec.source)
    model = model.pinned(lookup.model(model).source)
    for line in lookup.resolved.values():
        say(f"pinned  {line}")
    lookup.resolved.clear()  # what follows has exact versions
    for line in (*corpus.lines, *corpus_lines(corpus.task, corpus.spec)):
        say(f"data    {line}")
    if corpus.spec.folds is not None:
        say(f"data    {folds_note(corpus.task, corpus.spec)}")
    corpus = replace(corpus, data=data.model_dump(mode="json", exclude_defaults=True))
    key = model.folder or model.model_dump(mode="json", exclude_defaults=True)
    question = Question(corpus, key, {}, asked.tolerance, asked=asked.question, suffix=asked.suffix)
    return sized(question, lookup, None)


def write_question(options: ChooseOptions, lookup: Lookup, say: Say) -> Path:
    """Write the sweep file that `choose` would launch on all of train, to be edited; returns its path.

    Raises:
        RefusedError: The file exists.
        ConfigError, DataError, ModelError, MissingError: As `choose`.
    """
    options.check()
    folder = Path(options.out or "")
    made_by = options.question.replace(" choose", " init", 1)
    question = replace(question_of(options, lookup, say), asked=made_by, folder=folder)
    path = folder / f"{question.name}.yaml"
    if path.exists():
        raise RefusedError(f"{path}: already exists. Give --out another folder, or delete the file.")
    sweep, document = sweep_of_text(path, question.sweep_text())
    SweepFile(path).write(question.sweep_text())
    trials = expand(sweep, document, lookup)
    printed = {f"{question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    for note in Noted(sweep, trials, trials, lookup).sentences():
        if note not in printed:
            say(f"note    {note}")
    return path


def as_before(asked: ChooseOptions, folder: Path, say: Say) -> ChooseOptions:
    """The options with the versions that the sweep file of the same question pins, if it is there."""
    data, model = draft_of(asked), named_model(asked.model)
    path = folder / f"{sweep_name(data.model_dump(), asked.suffix)}.yaml"
    pins = SweepFile(path).pins(asked.question)
    if "data" in pins and not data.is_pinned:
        say(f"pinned  data {pins['data']}, as in {path}")
        asked = replace(asked, data=pins["data"])
    if "model" in pins and not model.is_pinned:
        say(f"pinned  model {pins['model']}, as in {path}")
        asked = replace(asked, model=pins["model"])
    return asked


def sized(question: Question, lookup: Lookup, size: int | None) -> Question:
    """The question about so much of train, with the recipe for that."""
    key, corpus = question.model, question.corpus
    spec = lookup.model(ModelDraft(folder=key) if isinstance(key, str) else ModelDraft(**key))
    read = read_corpus(corpus.task, lookup.data(DataDraft.model_validate(corpus.data), corpus.task))
    return replace(question, train_size=size, recipe=recipe(spec, read, size))
