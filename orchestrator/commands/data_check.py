"""`permafrost data check`: how a corpus is understood, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.config import options
from orchestrator.config.console import download_progress, errors_as_exit_codes, stderr, stdout
from orchestrator.config.quantities import amount
from orchestrator.own_data.choose_options import DATA, ChooseOptions, draft_of, with_options
from orchestrator.own_data.corpus_check import LENGTHS, CorpusCheck, check_corpus
from orchestrator.own_data.corpus_guess import NO_DEV, guess_draft
from orchestrator.sweeps.corpus_words import corpus_lines, examples
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from trials.corpora.corpus import SPLITS
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.escaping import escape_line
from trials.spec import DataSpec
from trials.tasks import TASKS
from trials.tasks.task_corpus import drop_unlabelled, read_corpus, reading_notes

_MOST_LABELS = 60  # rows of the table of labels


@with_options("name", "sweep", *DATA)
def check(
    asked: ChooseOptions,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A folder, a file, a bundled sample or a fetched corpus.")
    ] = None,
    sweep: Annotated[
        Path | None, typer.Option("--sweep", metavar="FILE", help="Check every corpus of this sweep instead.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a corpus: how it is understood, broken lines, sizes, labels, lengths, and items that occur in two splits.

    Examples:
        permafrost data check UD_Naija-NSC-sample

        permafrost data check my-corpus --task ner

        permafrost data check reviews.tsv --text 0 --label 1

        permafrost data check --train a.conllu --dev b.conllu

        permafrost data check --sweep my.yaml

    Exit codes: 0 checked, 2 invalid option, 3 missing or broken file.
    """
    with errors_as_exit_codes():
        if (sweep is not None) == bool(name or asked.train or asked.dev or asked.test):
            raise ConfigError("check what? Give a NAME, --sweep FILE, or --train FILE with --dev and --test.")
        with download_progress(stderr):
            corpora = _corpora(sweep, replace(asked, data=name or ""), Lookup())
        checked = [_Checked(data, task, lines, _checked(data, task)) for data, task, lines in corpora]
        if as_json:
            rows = [_as_json(corpus) for corpus in checked]
            print(json.dumps({"corpora": rows} if sweep is not None else rows[0]))
            return
        for n, corpus in enumerate(checked):
            if n:
                stdout.print_line("")
            _show(corpus)


class _Checked(NamedTuple):
    """A corpus, the task that it is read for, what was taken of it, and its counts."""

    data: DataSpec
    task: str
    lines: Sequence[str]
    report: CorpusCheck


def _corpora(sweep: Path | None, asked: ChooseOptions, lookup: Lookup) -> list[tuple[DataSpec, str, Sequence[str]]]:
    """The corpora of a sweep's trials, or the one of a name or of files, the task to read each for, and what was
    taken.
    """
    if sweep is not None:
        corpora = dict.fromkeys((spec.data, spec.task) for spec in expand(*load_sweep(sweep, []), lookup))
        return [(data, task, ()) for data, task in corpora]
    if not asked.data and not asked.train:
        raise ConfigError("--dev and --test go with --train. To check one file, give it as NAME.")
    asked.check()
    draft, task, lines = guess_draft(draft_of(asked), asked, lookup)
    data = drop_unlabelled(task, draft.resolve(TASKS[task].columns))
    if not draft.needs_dev:  # all of train is shown
        lines = [line for line in lines if not line.startswith(NO_DEV)]
    return [(data.model_copy(update={"held_out": None, "folds": None}), task, lines)]


def _show(corpus: _Checked) -> None:
    data, task, lines, report = corpus
    stdout.print_line(f"{data.name} ({data.format}, task {task}), SHA-256 {data.fingerprint[:16]}")
    for line in dict.fromkeys((*lines, *reading_notes(task, data))):
        stdout.print_line(f"note    {line}")
    for line in corpus_lines(task, data):
        stdout.print_line(f"data    {line}")
    for part in _check_parts(report):
        stdout.print(part)


def _checked(data: DataSpec, task: str) -> CorpusCheck:
    """The counts of a corpus; the only split of a single file has the file's name."""
    report = check_corpus(read_corpus(task, data))
    if len(report.splits) > 1 or len(data.train) > 1:
        return report
    return CorpusCheck({Path(data.train[0]).name: report.splits["train"]}, {}, {}, {})


def _as_json(corpus: _Checked) -> dict[str, object]:
    data, task, lines, report = corpus
    shared, documents = (
        {f"{split} in {other}": n for (split, other), n in counts.items()}
        for counts in (report.shared, report.shared_documents)
    )
    return {
        "name": data.name,
        "fingerprint": data.fingerprint,
        "task": task,
        "format": data.format,
        "columns": data.columns.model_dump(exclude_none=True),
        "files": {split: list(getattr(data, split)) for split in SPLITS},
        "notes": list(dict.fromkeys((*lines, *reading_notes(task, data)))),
        "examples": examples(read_corpus(task, data).train),
        **asdict(report),
        "shared": shared,
        "shared_documents": documents,
    }


def _check_parts(report: CorpusCheck) -> Iterator[Table | Padding | Text]:
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
            items = amount(total, f"{split} item")
            yield Text(f"{n:,} of {items} ({100 * n / total:.1f} %) also {'occurs' if n == 1 else 'occur'} in {other}.")
    for (split, other), n in report.shared_documents.items():
        if n:
            yield Text(f"{amount(n, f'{split} document')} also {'occurs' if n == 1 else 'occur'} in {other}.")
    for split, labels in report.unseen.items():
        if labels:
            names = ", ".join(f"{escape_line(label)} ({n})" for label, n in labels.items())
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
        table.add_row(escape_line(label), *(f"{split.labels.get(label, 0):,}" for split in splits))
    if len(labels) > _MOST_LABELS:
        table.add_row(f"and {len(labels) - _MOST_LABELS} more")
    return table
