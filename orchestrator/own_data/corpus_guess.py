"""Find out what a folder, file, treebank or dataset holds: splits, format, columns and task; and say so in lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.config.quantities import amount
from orchestrator.own_data.choose_options import ChooseOptions, draft_of
from orchestrator.own_data.task_guess import refuse_no_spans, task_of
from orchestrator.sweeps.corpus_words import percent, split_size
from trials.corpora.column_names import NO_PAIR
from trials.corpora.corpus import Corpus, fingerprint, item_words
from trials.corpora.layout import format_of, layout_of
from trials.corpora.table_rows import TABLES
from trials.draft import Lookup
from trials.errors import ConfigError, DataError, NoDevSplitError, UnclearError, option_words
from trials.sources.places.corpus_draft import HELD_OUT, DataDraft, Located
from trials.spec import Columns, DataSpec, Files
from trials.tasks.task import TASKS, unit_of
from trials.tasks.task_corpus import read_corpus, reading_notes

NO_DEV = "no dev split"
SMALL, LARGER_SHARE = 1_000, 0.3  # items below which so much of train is held out, as a tenth decides nothing


@dataclass(frozen=True)
class CorpusGuess:
    """What a name stands for.

    Attributes:
        data: The key `data` of a sweep file.
        lines: What was taken, and how to say otherwise; a sentence each.
        spec: The corpus, read and validated.
    """

    data: Mapping[str, Any]
    task: str
    lines: tuple[str, ...]
    spec: DataSpec


def guess_corpus(options: ChooseOptions, lookup: Lookup) -> CorpusGuess:
    """The corpus that the options name, read and validated, with its task and columns.

    Args:
        options: The data, and whatever somebody has said about it.

    Raises:
        ConfigError: Nobody can say which column is which, or what the task is.
        DataError, MissingError: The files are absent, broken, or do not fit the task.
    """
    draft, task, lines = guess_draft(draft_of(options), options, lookup)
    data = lookup.data(draft, task)
    assert data.sizes is not None
    if draft.held_out is not None and options.held_out is None and sum(data.sizes[:2]) < SMALL:
        draft = draft.model_copy(update={"held_out": LARGER_SHARE})
        data = lookup.data(draft, task)
        lines = [_no_dev(LARGER_SHARE) if line.startswith(NO_DEV) else line for line in lines]
    assert data.sizes is not None
    files = ", ".join(Path(p).name for p in (*data.train, *data.dev, *data.test)[:4])
    unit = unit_of(task)
    n_train, dev, test = data.sizes[0], split_size(data, "dev"), split_size(data, "test")
    first = f"{data.name} ({files}): {n_train:,} {unit} for training, {dev}, {test}"
    notes = dict.fromkeys((first, *lines, *reading_notes(task, data), *_leak(read_corpus(task, data))))
    return CorpusGuess(draft.model_dump(mode="json", exclude_defaults=True), task, tuple(notes), data)


def _no_dev(share: float) -> str:
    return (
        f"{NO_DEV}: {share:.0%} of train serve as dev, the same on every machine "
        "(a file with `dev` or `validation` in its name beside it is taken instead; or --dev FILE)"
    )


def _leak(corpus: Corpus) -> Iterator[str]:
    """A line where items of dev are in train, too."""
    inside, n = {*map(item_words, corpus.train)}, len(corpus.dev)
    if shared := sum(item_words(item) in inside for item in corpus.dev):
        yield f"{shared:,} of {amount(n, 'dev item')} ({percent(shared, n)}) also occur in train"


def guess_draft(draft: DataDraft, options: ChooseOptions, lookup: Lookup) -> tuple[DataDraft, str, list[str]]:
    """A corpus with the columns that its files have and a split that serves as dev; its task; a line on each guess.

    Raises as `guess_corpus`; the task's rules are not checked yet.
    """
    choices = {key: getattr(options, key) or getattr(draft, key) for key in ("format", "scheme", "label_none")}
    draft = draft.model_copy(update=choices)
    draft, located = _locate(draft, lookup)
    lines = []
    if options.held_out is not None or options.folds is not None:
        draft, located, line = _without_dev(draft, located, options.held_out, options.folds)
        lines.append(line)
    elif draft.held_out is not None:
        lines.append(_no_dev(draft.held_out))
    files: Files = tuple(path for split in located.splits for path in split)
    fingerprint(*located.splits)  # refuses what is no plain file before anything is read
    task_columns = Columns() if options.task is None else TASKS[options.task].columns
    given, format_ = options.columns or draft.columns, draft.format or located.format
    try:
        layout = layout_of(located.splits.train, format_, given, task_columns, files, looks_for_pair=True)
        task = options.task or task_of(located.splits.train, layout, draft.scheme)
        refuse_no_spans(task, layout)
    except UnclearError as unclear:
        if options.ask is None or not unclear.options:
            raise
        listed = "; ".join(f"{n} = {option_words(option)}" for n, option in enumerate(unclear.options, start=1))
        n = options.ask(f"{unclear} Which? {listed}", [str(n) for n, _ in enumerate(unclear.options, start=1)])
        answer = {name: str(value) for name, value in unclear.options[int(n) - 1].items()}
        return guess_draft(draft, replace(options, **answer), lookup)  # type: ignore[arg-type]
    if options.task is None:
        lines.append(f"task {task}, by its {'tags' if TASKS[task].head == 'tokens' else 'labels'} (--task for another)")
    if layout.format in TABLES:
        named = ", ".join(f"{key} = {value!r}" for key, value in layout.columns if value is not None)
        others = "--words and --tags" if layout.columns.tokens is not None else "--text and --label"
        notes = [note for note in layout.notes if note != "no header line"]
        header = "; no header line" if len(notes) < len(layout.notes) else ""
        lines += [f"columns {named}{header} ({others} for others)", *notes]
    else:
        lines += layout.notes
    changes: dict[str, object] = {}
    if layout.columns != Columns():
        # The files are laid out once more when the draft is resolved, and would find a refused column again.
        refused = {"document": NO_PAIR} if given is not None and given.document == NO_PAIR else {}
        changes["columns"] = layout.columns.model_copy(update=refused)
    if located.format is None and options.format is None and not _says_format(files[0], layout.format):
        changes["format"] = layout.format
    return draft.model_copy(update=changes), task, lines


def _locate(draft: DataDraft, lookup: Lookup) -> tuple[DataDraft, Located]:
    """A corpus and its files, unread; without a dev split it holds a share of train out."""
    try:
        return draft, lookup.files(draft)
    except DataError as error:
        if draft.held_out is not None:
            raise
        held_out = draft.model_copy(update={"held_out": HELD_OUT})
        try:
            return held_out, lookup.files(held_out)
        except DataError as other:
            raise (other if isinstance(error, NoDevSplitError) else error) from None


def _without_dev(
    draft: DataDraft, located: Located, share: float | None, folds: int | None
) -> tuple[DataDraft, Located, str]:
    """The corpus with a share of train, or folds, as dev, and a line on it; a dev split of its own joins train.

    Raises:
        ConfigError: It has a dev split, and a version of its own that its files would lose.
    """
    train, dev, test = located.splits.train, located.splits.dev, located.splits.test
    option, serves = f"--folds {folds}", f"{folds} folds of train serve as dev, one a seed"
    if share is not None:
        option, serves = f"--held-out {share:g}", f"{share:.0%} of train serve as dev"
    line, parts = f"{serves}, the same on every machine ({option.split()[0]})", {"held_out": share, "folds": folds}
    if not dev:
        return draft.model_copy(update=parts), located._replace(held_out=share), line
    if draft.ud is not None or draft.hub is not None or draft.bundled is not None:
        raise ConfigError(
            f"{option}: {located.name} has a dev split of its own. Leave {option.split()[0]} out, or give files."
        )
    rest = {key: getattr(draft, key) for key in ("format", "columns", "scheme", "label_none", "first")}
    pooled = DataDraft(train=(*train, *dev), test=test, name=draft.name or located.name, **parts, **rest)
    joined = located._replace(splits=located.splits._replace(train=(*train, *dev), dev=()), held_out=share)
    return pooled, joined, f"the dev split joins train, and {line}"


def _says_format(path: str, format_: str) -> bool:
    """Whether a file's name says a format."""
    try:
        return format_of(path) == format_
    except DataError:
        return False
