"""The options that say what somebody's data are: of `choose`, `init` and `data check`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from orchestrator.config import options

Given = Mapping[str, Any]
"""The values of these options, by attribute of `ChooseOptions`."""

_HELD = "by what the files hold"


def _options(
    task: options.Task = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="columns, conllu, tsv, csv, jsonl or parquet.", show_default=_HELD),
    ] = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="COLUMN", help="The column of words: position from 0, or name.")
    ] = None,
    tags: Annotated[
        str | None, typer.Option("--tags", metavar="COLUMN", help="The column of their tags; in CoNLL-U upos or xpos.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="COLUMN", help="A table's column of texts: name, or position from 0."),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option("--pair", metavar="COLUMN", help="The column of each pair's second text; `none` for none."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="A table's column of labels.")
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            "--document",
            metavar="COLUMN",
            help="A table's column that names what a row is a part of: an article, a thread; `none` for none.",
            show_default="one called doc_id, document or the like",
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", help="How span tags are written: iob1, iob2, bioes or io.", show_default=_HELD),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train", metavar="FILE", help="The file of the train split; repeat it for several. Also in DATA."
        ),
    ] = None,
    dev: Annotated[
        list[str] | None, typer.Option("--dev", metavar="FILE", help="Likewise, of the dev split.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option("--test", metavar="FILE", help="Likewise, of the test split.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out", metavar="SHARE", help="Let this share of train, and of a dev split's files, serve as dev.",
            show_default="0.1 without a dev split",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", metavar="K",
            help="Cross-validation instead: each seed has one of K parts of train, and of a dev split's files, as dev.",
        ),
    ] = None,
) -> None: ...  # fmt: skip


def with_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options above, whose values it gets together, as `given`."""
    ours, theirs = inspect.signature(_options).parameters, inspect.signature(command).parameters
    rest = [parameter for name, parameter in theirs.items() if name != "given"]
    place = next((n for n, each in enumerate(rest) if each.name not in ("data", "name", "sweep")), len(rest))

    @wraps(command)
    def wrapped(**values: Any) -> None:
        given = {name.rstrip("_"): values.pop(name, ours[name].default) for name in ours}
        files = {split: given[split] or () for split in ("train", "dev", "test")}
        command(given={**given, **files}, **values)

    hints = get_type_hints(_options, include_extras=True) | get_type_hints(command, include_extras=True)
    del hints["given"], wrapped.__wrapped__
    parameters = [*rest[:place], *ours.values(), *rest[place:]]
    wrapped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    )
    wrapped.__annotations__ = hints
    return wrapped
