"""The options of `choose`: what a user wants to find out about their data, and where. One value holds all."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass
from typer.models import OptionInfo

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE
from trials.corpora.converted import conversion_of
from trials.corpora.corpus import CORPUS_FORMATS, SPLITS
from trials.corpora.split_files import files_in
from trials.corpora.split_names import find_splits
from trials.errors import ConfigError, MissingError, unknown_name
from trials.sources.places.corpus_draft import HELD_OUT, DataDraft, named_corpus
from trials.sources.source import near_hint
from trials.spec import FEWEST_FOLDS, MOST_FOLDS, Columns, Files, Scheme
from trials.starter import BUNDLED_TREEBANKS, STARTER
from trials.tasks import TASKS

Ask = Callable[[str, Sequence[str]], str]
"""Ask a person a question with one of several answers, which it returns."""
Place = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, Path) else given)]
SplitFiles = Annotated[
    tuple[Place, ...], BeforeValidator(lambda given: [given] if isinstance(given, str | Path) else given)
]
"""Files of a split; one alone is taken, too."""

_COLUMN = "COLUMN"
_HELD = "by what the files hold"
# What a question is, in the order of its command, by which a sweep file is known again.
_ASKED = (
    "task", "model", "tolerance", "text", "label", "label_none", "pair", "format", "words", "tags", "document",
    "scheme", "held_out", "folds", "rates", "train", "dev", "test",
)  # fmt: skip


def _option(name: str, about: str, metavar: str | None = None, shown: str | bool = True) -> OptionInfo:
    option: OptionInfo = typer.Option(f"--{name}", metavar=metavar, help=about, show_default=shown)
    return option


@dataclass(frozen=True, kw_only=True, config=ConfigDict(coerce_numbers_to_str=True))  # a position of a column
class ChooseOptions:
    """The options of `choose` and `init`, as Python and the command line take them (`with_options`).

    What the help of an option says is not said again.

    Attributes:
        task: A registered task; None for what the files hold.
        model: `starter`, a folder, or a repository of the hub (`OWNER/NAME`); with `@` another commit than the newest.
        cluster: As of `launch`.
        cpus, gpus: Cores and GPUs of this machine that it uses; None for all that this process may.
        offline: Refuse to download.
        ask: Asks a person what a corpus does not say; None for nobody there.
    """

    data: Annotated[
        Place,
        typer.Argument(
            metavar="[DATA]",
            show_default=False,
            help="A folder, a file, a bundled sample, a treebank (UD_English-EWT), or a dataset of the hub (imdb, "
            "nyu-mll/glue/sst2); the newest, or with @RELEASE or @REVISION another.",
        ),
    ] = ""
    task: options.Task = None
    model: options.Model = STARTER
    tolerance: Annotated[float, _option("tolerance", "Acceptable loss of quality in points.")] = 1.0
    format: Annotated[str | None, _option("format", "columns, conllu, tsv, csv, jsonl or parquet.", shown=_HELD)] = None
    words: Annotated[str | None, _option("words", "The column of words: position from 0, or name.", _COLUMN)] = None
    tags: Annotated[str | None, _option("tags", "The column of their tags; in CoNLL-U upos or xpos.", _COLUMN)] = None
    text: Annotated[str | None, _option("text", "A table's column of texts: name, or position from 0.", _COLUMN)] = None
    pair: Annotated[str | None, _option("pair", "The column of each pair's second text; `none` for none.", _COLUMN)] = (
        None
    )
    label: Annotated[str | None, _option("label", "A table's column of labels.", _COLUMN)] = None
    document: Annotated[
        str | None,
        _option(
            "document",
            "A table's column that names what a row is a part of: an article, a thread; `none` for none.",
            _COLUMN,
            "one called doc_id, document or the like",
        ),
    ] = None
    label_none: Annotated[
        str | None,
        _option(
            "label-none", "The label of texts that have none, as -1; `none` where each is a class.", "LABEL", _HELD
        ),
    ] = None
    scheme: Annotated[
        str | None, _option("scheme", "How span tags are written: iob1, iob2, bioes or io.", shown=_HELD)
    ] = None
    train: Annotated[
        SplitFiles, _option("train", "The file of the train split; repeat it for several. Also in DATA.", "FILE")
    ] = ()
    dev: Annotated[SplitFiles, _option("dev", "Likewise, of the dev split.", "FILE")] = ()
    test: Annotated[SplitFiles, _option("test", "Likewise, of the test split.", "FILE")] = ()
    held_out: Annotated[
        float | None,
        _option(
            "held-out",
            "Let this share of train, and of a dev split's files, serve as dev.",
            "SHARE",
            "without a dev split 0.3, from 1,000 examples on 0.1",
        ),
    ] = None
    folds: Annotated[
        int | None,
        _option(
            "folds",
            "Cross-validation instead: each seed has one of K parts of train, and of a dev split's files, as dev.",
            "K",
        ),
    ] = None
    rates: Annotated[
        str | None,
        _option(
            "rates",
            "Try these learning rates first, as 2e-5,5e-5,1e-4 or auto, so that each depth has its own best.",
            "LIST",
        ),
    ] = None
    max_hours: Annotated[
        float,
        _option(
            "max-hours",
            "Limit of the launch; where a first answer on all of train takes longer, a part is used, the time of all "
            "said.",
            "H",
        ),
    ] = 1.0
    store: options.Store = DEFAULT_STORE
    out: Annotated[str | None, _option("out", "Where sweep files go.", "DIR", "beside the store")] = None
    cluster: options.Cluster = None
    cpus: options.Cpus = None
    gpus: options.Gpus = None
    export: Annotated[
        str | None,
        _option(
            "export",
            "Also train the recommended setting on all of train, and write the model to a new folder; `best` for what "
            "the curve recommends where nothing is decided.",
            "FOLDER",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the sweep and forecast it; run nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: run what fits the time, and say so.")] = False
    offline: options.Offline = False
    ask: Ask | None = None

    def check(self) -> None:
        """Raise ConfigError if a value is invalid; columns and names are checked when they are looked up."""
        choices: dict[str, tuple[str | None, Sequence[str]]] = {
            "--task": (self.task, [*TASKS]), "--format": (self.format, [*CORPUS_FORMATS]),
            "--scheme": (self.scheme, get_args(Scheme)),
        }  # fmt: skip
        for option, (word, allowed) in choices.items():
            if word is not None and word not in allowed:
                raise ConfigError(f"{option}: {unknown_name(word, allowed)}")
        if not 0 < self.tolerance < 100:
            raise ConfigError(f"--tolerance {self.tolerance:g}: must be above 0 and below 100 points.")
        self._check_dev()
        if (self.text is None) != (self.label is None):
            raise ConfigError("--text and --label go together. Give both, by name or by position from 0.")
        if self.text is not None and (self.words or self.tags) is not None:
            raise ConfigError(
                "--text and --words ask for two things: texts with a label, or words with tags. Give one."
            )
        if not self.data and not self.train:
            raise ConfigError("no data. Give a folder, a file or a name, or --train FILE.")

    def _check_dev(self) -> None:
        if self.held_out is not None and not 0 < self.held_out <= 0.5:
            raise ConfigError(f"--held-out {self.held_out:g}: must be above 0 and at most 0.5, a share of train.")
        if self.folds is not None and not FEWEST_FOLDS <= self.folds <= MOST_FOLDS:
            raise ConfigError(f"--folds {self.folds}: must be from {FEWEST_FOLDS} to {MOST_FOLDS}.")
        if self.folds is not None and self.held_out is not None:
            raise ConfigError("--folds and --held-out both make a dev split of train. Give one.")

    @property
    def columns(self) -> Columns | None:
        """The columns that the user has named; a number is a position. `pair` may be `none`."""
        given = {"tokens": self.words, "tags": self.tags, "text": self.text, "pair": self.pair, "label": self.label}
        given["document"] = self.document
        columns = {key: name_or_position(word) for key, word in given.items() if word is not None}
        return Columns(**columns) if columns else None

    @property
    def question(self) -> str:
        """The command that asks this, without the options that change where and when it runs only."""
        values = {name: getattr(self, name) or None for name in _ASKED}
        return shlex.join(["permafrost", "choose", *([self.data] if self.data else []), *_words(values)])

    def command(self, **changes: object) -> str:
        """The whole command that asks this with some options changed."""
        options = replace(self, **changes)  # type: ignore[arg-type]
        values = {name: getattr(options, name) for name in ("max_hours", "store", "out", "export")}
        given = [*_words(values), *options.machine, *(["--offline"] if options.offline else [])]
        return shlex.join([*shlex.split(options.question), *given])

    @property
    def machine(self) -> list[str]:
        """The words of a command that runs where this one does."""
        return _words({"cpus": self.cpus, "gpus": self.gpus, "cluster": self.cluster})


def _words(options: Mapping[str, object]) -> list[str]:
    """The options that were given, by attribute, as they are written on a command line."""
    arguments = []
    for name, value in options.items():
        for item in value if isinstance(value, list | tuple) else [] if value is None else [value]:
            arguments += [f"--{name.replace('_', '-')}", f"{item:g}" if isinstance(item, float) else str(item)]
    return arguments


def name_or_position(word: str) -> str | int:
    """A column as a command line names it: a position is a number."""
    return int(word) if word.lstrip("-").isdigit() else word


def draft_of(options: ChooseOptions) -> DataDraft:
    """The corpus that the name and the files of splits declare; nothing is read yet.

    Raises:
        ConfigError: The name lacks its version, or files are given beside a name that is no folder.
        MissingError: A path is not there.
    """
    name, path = options.data, Path(options.data).expanduser()
    given = {split: [each for name in getattr(options, split) for each in _files_of(name)] for split in SPLITS[:3]}
    files: dict[str, Files] = {split: tuple(names) for split, names in given.items()}
    if any(files.values()):
        return _draft_of_files(options, path, files)
    if path.is_file():
        word = _word(path.name.split(".")[0])
        if conversion_of(path) is not None:  # its rows say their splits
            return DataDraft(folder=name, name=word)
        return DataDraft(train=(name,), held_out=HELD_OUT, name=word)
    draft = named_corpus(name)
    if draft.folder is not None and not path.exists():
        raise MissingError(
            f"{name}: no such file or folder.{near_hint(name, BUNDLED_TREEBANKS)} Give one, a bundled sample, a "
            "treebank like UD_English-EWT, or a dataset of the hub like nyu-mll/glue/sst2."
        )
    return draft


def _draft_of_files(options: ChooseOptions, path: Path, files: Mapping[str, Files]) -> DataDraft:
    """The given files, and the folder's for splits that are not given. Given names may be relative to the folder."""
    if not options.data:
        if not files["train"]:
            raise ConfigError("--dev and --test go with a folder or --train. To check one file, give it as NAME.")
        name = _word(Path(files["train"][0].removesuffix(".gz")).stem)
        return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)
    if path.is_file():
        files, name = {**files, "train": files["train"] or (options.data,)}, _word(path.name.split(".")[0])
    elif path.is_dir():
        inside = {split: tuple(_inside(path, file) for file in paths) for split, paths in files.items()}
        rest = dict[str, Files]()
        for split, paths in find_splits(files_in(path)).items():
            if split in inside and not inside[split] and len(paths) == 1:
                rest[split] = (str(paths[0]),)
        files, name = {**inside, **rest}, _word(path.resolve().name)
    else:
        raise ConfigError(f"--train, --dev and --test go with a folder or a file, and {options.data!r} is neither.")
    if not files["train"]:
        raise ConfigError(f"{options.data}: which file is the train split? Give --train FILE.")
    return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)


def _files_of(name: str) -> list[str]:
    """The files of a folder that is given as a split, or the one file that is."""
    path = Path(name).expanduser()
    return [*map(str, files_in(path))] if path.is_dir() else [name]


def _inside(folder: Path, name: str) -> str:
    """The given file, or else the file of this name in the folder."""
    return name if Path(name).expanduser().exists() or not (folder / name).exists() else str(folder / name)


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name) or "data"


DATA = (
    "task", "format", "words", "tags", "text", "pair", "label", "label_none", "document", "scheme", "train", "dev",
    "test",
)  # fmt: skip
"""What somebody's data are."""


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options, which it gets together, as `asked`; parameters of its own stay its own.

    Args:
        names: Attributes of `ChooseOptions`, and the command's own parameters among them, in the order of its help;
            own ones that are not named come last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["asked"]
        shared = {name: _parameter(name) for name in names if name not in own}

        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name, parameter.default) for name, parameter in shared.items()}
            command(
                asked=ChooseOptions(**{name: value for name, value in given.items() if value is not None}), **values
            )

        del run.__wrapped__
        keyword = {name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.items()}
        parameters = {name: (shared | keyword)[name] for name in (*names, *own)}
        run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return run

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    """An attribute of `ChooseOptions` as Typer knows it, which repeats an option for a list or None only."""
    kind, *about = get_args(get_type_hints(ChooseOptions, include_extras=True)[name])
    default: Any = getattr(ChooseOptions, name)
    if get_origin(kind) is tuple:
        kind, default = list[str] | None, None
    annotation: Any = Annotated[kind, *about]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
