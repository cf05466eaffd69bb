"""The counts of a corpus as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.config.quantities import counted
from orchestrator.own_data.corpus_check import LENGTHS, CorpusCheck
from trials.escaping import escaped

_MOST_LABELS = 60  # of the table


def check_parts(report: CorpusCheck) -> Iterator[Table | Padding | Text]:
    """Sizes, lengths and labels of each split, then what is wrong with it."""
    splits = report.splits.values()
    counts = {
        "items": [s.items for s in splits],
        "documents": [s.documents for s in splits],
        "words": [s.words for s in splits],
        "vocabulary": [s.vocabulary for s in splits],
        "one word": [s.one_word for s in splits],
        "longest": [s.longest for s in splits],
        "duplicates": [s.repeated for s in splits],
    }
    if not any(counts["documents"]):  # the corpus does not say
        del counts["documents"]
    sizes = dict(zip(report.splits, zip(*counts.values(), strict=True), strict=True))
    bounds = [f"<= {bound}" for bound in LENGTHS] + [f"> {LENGTHS[-1]}"]
    for table in (
        _number_table(("split", *counts), sizes),
        # Of its own, so that the numbers of a large corpus fit 80 columns.
        _number_table(("words", *bounds), {name: split.lengths for name, split in report.splits.items()}),
        _label_table(report),
    ):
        yield Padding(table, (1, 0, 0, 0))
    for (split, other), n in report.shared.items():
        if n:
            total = report.splits[split].items
            items = counted(total, f"{split} item")
            yield Text(f"{n:,} of {items} ({100 * n / total:.1f} %) also {'occurs' if n == 1 else 'occur'} in {other}.")
    for (split, other), n in report.shared_documents.items():
        if n:
            yield Text(f"{counted(n, f'{split} document')} also {'occurs' if n == 1 else 'occur'} in {other}.")
    for split, labels in report.unseen.items():
        if labels:
            names = ", ".join(f"{escaped(label)} ({n})" for label, n in labels.items())
            yield Text(f"{split} has labels that train lacks, each of which counts as an error: {names}.")


def _number_table(head: Sequence[str], rows: Mapping[str, Sequence[int]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in head:
        table.add_column(name, justify="left" if name == head[0] else "right", no_wrap=True)
    for name, figures in rows.items():
        table.add_row(name, *(f"{n:,}" for n in figures))
    return table


def _label_table(report: CorpusCheck) -> Table:
    table, splits = Table("label", box=None, padding=(0, 2, 0, 0)), report.splits.values()
    for name in report.splits:
        table.add_column(name, justify="right")
    labels = list(dict.fromkeys(label for split in splits for label in split.labels))
    for label in labels[:_MOST_LABELS]:
        table.add_row(escaped(label), *(f"{split.labels.get(label, 0):,}" for split in splits))
    if len(labels) > _MOST_LABELS:
        table.add_row(f"and {len(labels) - _MOST_LABELS} more")
    return table
