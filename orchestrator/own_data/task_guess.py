"""Which task reads a corpus, by its tags, its labels, or its format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trials.corpora.broken_lines import BrokenLinesError
from trials.corpora.cell_evidence import TagEvidence
from trials.corpora.corpus import CORPUS_FORMATS, Item, Sentence
from trials.corpora.formats.conllu_reader import TAGS
from trials.corpora.layout import Layout
from trials.corpora.table_rows import TABLES, column_cells, first_rows
from trials.errors import ConfigError, DataError, UnclearError, quote
from trials.spec import Files
from trials.tasks import TASKS
from trials.tasks.task import task_that_reads

_MOST_RATINGS = 10  # whole numbers, up to which they are classes


def task_of(train: Files, layout: Layout, scheme: str) -> str:
    """The task by all items of the first file; if it is broken, by the format, as reading all files then tells why.

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
    evidence = TagEvidence.from_counts(tags)
    if evidence.unclear and not evidence.are_spans:
        some = ", ".join(quote(tag) for tag, _ in tags.most_common(6))
        ways = ({"task": spans}, {"task": spans, "scheme": "io"}, {"task": words})
        raise UnclearError(
            f"{path}: are its tags ({some}) those of spans or of single words? {100 * evidence.spans:.0f} % of them "
            "are O or a prefix and a type.",
            [way for way in ways if _reads(items, **way)],
        )
    return spans if evidence.are_spans else words


def refuse_no_spans(task: str, layout: Layout) -> None:
    """Raise ConfigError where a treebank's tags of single words would be read as tags of spans."""
    if layout.format == "conllu" and layout.columns.tags in (None, *TAGS) and "spans" in TASKS[task].outputs:
        raise ConfigError(
            f"--task {task}: CoNLL-U has the tags of single words in {' and '.join(TAGS)}, and none of spans here. "
            "Leave --task out, or give files with tags of spans."
        )


def _reads(items: Sequence[Item], task: str, scheme: str = "auto") -> bool:
    try:
        return bool(TASKS[task].read(items, scheme))  # type: ignore[arg-type]
    except DataError:
        return False


def _are_scores(labels: Sequence[object]) -> bool:
    """Whether labels are numbers, some with a fraction or many written as if they had one."""
    try:
        numbers = [float(str(label)) for label in labels if label not in (None, "")]
    except ValueError:
        return False
    many = len({*numbers}) > _MOST_RATINGS and all("." in str(label) for label in labels)
    return many or any(not number.is_integer() for number in numbers if number == number)
