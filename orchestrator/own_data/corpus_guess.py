"""Find out what a folder, file, treebank or dataset holds: splits, format, columns and task; and say so in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.sweeps.corpus_words import percent, split_size
from trials.datasets.broken_lines import BrokenLinesError
from trials.datasets.cell_evidence import TagEvidence
from trials.datasets.column_names import NO_PAIR
from trials.datasets.corpus import (
    CORPUS_FORMATS,
    SPLITS,
    Corpus,
    Item,
    Sentence,
    fingerprint,
    item_words,
)
from trials.datasets.formats.conllu_reader import TAGS
from trials.datasets.layout import Layout, format_of, layout_of
from trials.datasets.split_names import by_split
from trials.datasets.table_rows import TABLES, column_cells, first_rows
from trials.draft import Lookup
from trials.errors import ConfigError, DataError, MissingError, NoDevSplitError, UnclearError, spelled
from trials.escaping import quoted
from trials.settings import Columns, DataSpec, Files
from trials.sources.converted import conversion_of
from trials.sources.places.corpus_draft import HELD_OUT, DataDraft, Located, named_corpus
from trials.sources.source import near_here
from trials.sources.split_files import files_in
from trials.starter import BUNDLED_TREEBANKS
from trials.tasks import TASKS
from trials.tasks.task import read_corpus, reading_notes, task_that_reads, unit_of

_MOST_RATINGS = 10  # whole numbers, up to which they are classes
NO_DEV = "no dev split"


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


def guess_corpus(asked: ChooseOptions, lookup: Lookup) -> CorpusGuess:
    """What a name holds, read and validated.

    Args:
        asked: The data, and whatever somebody has said about it.

    Raises:
        ConfigError: Nobody can say which column is which, or what the task is.
        DataError, MissingError: The files are absent, broken, or do not fit the task.
    """
    draft, task, lines = guess_draft(draft_of(asked), asked, lookup)
    data = lookup.data(draft, task)
    assert data.sizes is not None
    files = ", ".join(Path(p).name for p in (*data.train, *data.dev, *data.test)[:4])
    unit = unit_of(TASKS[task])
    n_train, dev, test = data.sizes[0], split_size(data, "dev"), split_size(data, "test")
    first = f"{data.name} ({files}): {n_train:,} {unit} for training, {dev}, {test}"
    notes = dict.fromkeys((first, *lines, *reading_notes(task, data), *_leak(read_corpus(task, data))))
    return CorpusGuess(draft.model_dump(mode="json", exclude_defaults=True), task, tuple(notes), data)


def _leak(corpus: Corpus) -> Iterator[str]:
    """That items of dev are in train, too."""
    inside, n = {*map(item_words, corpus.train)}, len(corpus.dev)
    if shared := sum(item_words(item) in inside for item in corpus.dev):
        yield f"{shared:,} of {counted(n, 'dev item')} ({percent(shared, n)}) also occur in train"


def guess_draft(draft: DataDraft, asked: ChooseOptions, lookup: Lookup) -> tuple[DataDraft, str, list[str]]:
    """A corpus with the columns that its files have and a split that serves as dev; its task; a line on each guess.

    Raises as `guess_corpus`; the task's rules are not checked yet.
    """
    draft = draft.model_copy(update={"format": asked.format or draft.format, "scheme": asked.scheme or draft.scheme})
    draft, located = _located(draft, lookup)
    lines = []
    if asked.held_out is not None or asked.folds is not None:
        draft, located, line = _without_dev(draft, located, asked.held_out, asked.folds)
        lines.append(line)
    elif draft.held_out is not None:
        lines.append(
            f"{NO_DEV}: {draft.held_out:.0%} of train serve as dev, the same on every machine "
            "(a file with `dev` or `validation` in its name beside it is taken instead; or --dev FILE)"
        )
    files: Files = tuple(path for split in located.splits for path in split)
    fingerprint(*located.splits)  # refuses what is no plain file before anything is read
    task_columns = Columns() if asked.task is None else TASKS[asked.task].columns
    given, format_ = asked.columns or draft.columns, draft.format or located.format
    try:
        layout = layout_of(located.splits.train, format_, given, task_columns, files, looks_for_pair=True)
        task = asked.task or _task_of(located.splits.train, layout, draft.scheme)
        _refuse_no_spans(task, layout)
    except UnclearError as unclear:
        if asked.ask is None or not unclear.options:
            raise
        listed = "; ".join(f"{n} = {spelled(option)}" for n, option in enumerate(unclear.options, start=1))
        n = asked.ask(f"{unclear} Which? {listed}", [str(n) for n, _ in enumerate(unclear.options, start=1)])
        answer = {name: str(value) for name, value in unclear.options[int(n) - 1].items()}
        return guess_draft(draft, replace(asked, **answer), lookup)  # type: ignore[arg-type]
    if asked.task is None:
        lines.append(f"task {task}, by its {'tags' if TASKS[task].head == 'tokens' else 'labels'} (--task for another)")
    if layout.format in TABLES:
        named = ", ".join(f"{key} = {value!r}" for key, value in layout.columns if value is not None)
        options = "--words and --tags" if layout.columns.tokens is not None else "--text and --label"
        notes = [note for note in layout.notes if note != "no header line"]
        header = "; no header line" if len(notes) < len(layout.notes) else ""
        lines += [f"columns {named}{header} ({options} for others)", *notes]
    else:
        lines += layout.notes
    changes: dict[str, object] = {}
    if layout.columns != Columns():
        # The files are laid out once more when the draft is resolved, and would find a refused column again.
        refused = {"document": NO_PAIR} if given is not None and given.document == NO_PAIR else {}
        changes["columns"] = layout.columns.model_copy(update=refused)
    if located.format is None and asked.format is None and not _says_format(files[0], layout.format):
        changes["format"] = layout.format
    return draft.model_copy(update=changes), task, lines


def _refuse_no_spans(task: str, layout: Layout) -> None:
    """Raise ConfigError where a treebank's tags of single words would be read as those of spans."""
    if layout.format == "conllu" and layout.columns.tags in (None, *TAGS) and "spans" in TASKS[task].outputs:
        raise ConfigError(
            f"--task {task}: CoNLL-U has the tags of single words in {' and '.join(TAGS)}, and none of spans here. "
            "Leave --task out, or give files with tags of spans."
        )


def _located(draft: DataDraft, lookup: Lookup) -> tuple[DataDraft, Located]:
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
    rest = {"format": draft.format, "columns": draft.columns, "scheme": draft.scheme, "first": draft.first}
    pooled = DataDraft(train=(*train, *dev), test=test, name=draft.name or located.name, **parts, **rest)
    joined = located._replace(splits=located.splits._replace(train=(*train, *dev), dev=()), held_out=share)
    return pooled, joined, f"the dev split joins train, and {line}"


def draft_of(asked: ChooseOptions) -> DataDraft:
    """The corpus that a name and the files of splits stand for, unread.

    Raises:
        ConfigError: The name lacks its version, or files are given beside a name that is no folder.
        MissingError: A path is not there.
    """
    name, path = asked.data, Path(asked.data).expanduser()
    given = {split: [each for name in getattr(asked, split) for each in _files_of(name)] for split in SPLITS[:3]}
    files: dict[str, Files] = {split: tuple(names) for split, names in given.items()}
    if any(files.values()):
        return _draft_of_files(asked, path, files)
    if path.is_file():
        word = _word(path.name.split(".")[0])
        if conversion_of(path) is not None:  # its rows say their splits
            return DataDraft(folder=name, name=word)
        return DataDraft(train=(name,), held_out=HELD_OUT, name=word)
    draft = named_corpus(name)
    if draft.folder is not None and not path.exists():
        raise MissingError(
            f"{name}: no such file or folder.{near_here(name, BUNDLED_TREEBANKS)} Give one, a bundled sample, a "
            "treebank like UD_English-EWT, or a dataset of the hub like nyu-mll/glue/sst2."
        )
    return draft


def _draft_of_files(asked: ChooseOptions, path: Path, files: Mapping[str, Files]) -> DataDraft:
    """The given files, with those of a folder for splits that are not given; a file may be named as in the folder."""
    if not asked.data:
        if not files["train"]:
            raise ConfigError("--dev and --test go with a folder or --train. To check one file, give it as NAME.")
        name = _word(Path(files["train"][0].removesuffix(".gz")).stem)
        return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)
    if path.is_file():
        files, name = {**files, "train": files["train"] or (asked.data,)}, _word(path.name.split(".")[0])
    elif path.is_dir():
        inside = {split: tuple(_inside(path, file) for file in paths) for split, paths in files.items()}
        rest = dict[str, Files]()
        for split, paths in by_split(files_in(path)).items():
            if split in inside and not inside[split] and len(paths) == 1:
                rest[split] = (str(paths[0]),)
        files, name = {**inside, **rest}, _word(path.resolve().name)
    else:
        raise ConfigError(f"--train, --dev and --test go with a folder or a file, and {asked.data!r} is neither.")
    if not files["train"]:
        raise ConfigError(f"{asked.data}: which file is the train split? Give --train FILE.")
    return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)


def _files_of(name: str) -> list[str]:
    """The files of a folder that is given as a split, or the one file that is."""
    path = Path(name).expanduser()
    return [*map(str, files_in(path))] if path.is_dir() else [name]


def _inside(folder: Path, name: str) -> str:
    """A file as it was given, or the one of that name in a folder."""
    return name if Path(name).expanduser().exists() or not (folder / name).exists() else str(folder / name)


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name) or "data"


def _says_format(path: str, format_: str) -> bool:
    """Whether a file's name says a format."""
    try:
        return format_of(path) == format_
    except DataError:
        return False


def _task_of(train: Files, layout: Layout, scheme: str) -> str:
    """The task by all items of the first file; where these are broken, by the format, so that whoever reads all tells.

    Raises:
        ConfigError: The tags may be those of spans or not.
    """
    path, columns = Path(train[0]), layout.columns
    if layout.format == "conllu" and columns.tags in (None, *TAGS):
        return task_that_reads("tags")
    if columns.text is not None:
        assert columns.label is not None
        is_score = _are_scores(column_cells(first_rows(path, layout.format), columns.label) or ())
        return task_that_reads("numbers" if is_score else "classes")
    if scheme != "auto":
        return task_that_reads("spans")
    try:
        items = CORPUS_FORMATS[layout.format](path, columns, None)
    except BrokenLinesError:
        return task_that_reads("spans" if layout.format == "columns" else "classes")
    tags = Counter(tag for item in items if isinstance(item, Sentence) for tag in item.tags)
    if not tags:
        return task_that_reads("classes")
    words, spans = task_that_reads("tags"), task_that_reads("spans")
    are_words = any(word in str(columns.tags).lower() for word in ("pos", "chunk"))  # whose numbers are scored by word
    if layout.format in TABLES and not are_words and all(tag.isdigit() for tag in tags):
        raise DataError(
            f"{path}: the tags in {columns.tags!r} are numbers, 0 to {max(map(int, tags))}, which say no types. Write "
            "their names, e.g. `features['ner_tags'].feature.int2str` of `datasets`; or score each word: "
            f"--task {words}."
        )
    evidence = TagEvidence.of(tags)
    if evidence.unclear and not evidence.are_spans:
        some = ", ".join(quoted(tag) for tag, _ in tags.most_common(6))
        ways = ({"task": spans}, {"task": spans, "scheme": "io"}, {"task": words})
        raise UnclearError(
            f"{path}: are its tags ({some}) those of spans or of single words? {100 * evidence.spans:.0f} % of them "
            "are O or a prefix and a type.",
            [way for way in ways if _reads(items, **way)],
        )
    return spans if evidence.are_spans else words


def _reads(items: Sequence[Item], task: str, scheme: str = "auto") -> bool:
    try:
        return bool(TASKS[task].read(items, scheme))  # type: ignore[arg-type]
    except DataError:
        return False


def _are_scores(labels: Sequence[object]) -> bool:
    """Whether labels are numbers of which some have a fraction, or many that are written as if they had."""
    try:
        numbers = [float(str(label)) for label in labels if label not in (None, "")]
    except ValueError:
        return False
    many = len({*numbers}) > _MOST_RATINGS and all("." in str(label) for label in labels)
    return many or any(not number.is_integer() for number in numbers if number == number)
