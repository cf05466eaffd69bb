"""What a page's URL asks, `?sweep=starter&size=800&strategy=none,first_k`, and the trials that it selects.

The state of a page is all in its URL. Settings that are not in it have their defaults; those that cannot be parsed give
a notice and keep theirs. Also what else could be selected, and where the numbers of a page come from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Annotated, Any, NamedTuple, get_type_hints
from urllib.parse import parse_qsl, urlencode

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from dashboards.data.frames import Snapshot, Sweep
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.savings import FLOPS, default_saving
from orchestrator.analysis.trial_frame import with_sentences
from orchestrator.config.quantities import amount
from orchestrator.store import ResultStore
from orchestrator.store.evidence import sentence_columns
from trials.escaping import escape_line
from trials.metrics.metric import METRICS, metric_label
from trials.outside.validation_rules import rule_of
from trials.record import SAVED, State
from trials.tasks import TASKS

SPLITS = ("dev", "test")
EMBEDDINGS = ("any", "frozen", "learning")
COSTS = SAVED
AXES = {"epoch": "epochs", "train_s": "training time"}
THEMES = ("auto", "light", "dark")
STATES = ("any", "completed or pruned", "failed", "not ended")
GROUPS = ("none", "freeze")
_LONGEST, _LONG = 300, 3000  # characters of a query's field, and of `_LONG_ONES`; the rest is cut off
_LONG_ONES = ("filters", "columns", "trials")


def _one_of(options: tuple[str, ...] | Mapping[str, str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return text

    return AfterValidator(check)


def _filters(text: str) -> str:
    try:
        filters = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        filters = None
    if not isinstance(filters, dict):
        raise ValueError("must be filters as JSON")
    return text


_LISTED = BeforeValidator(lambda text: [word for word in text.split(",") if word] if isinstance(text, str) else text)
Sizes = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=10**11)], ...], _LISTED, AfterValidator(lambda s: tuple(sorted({*s})))
]
Words = Annotated[tuple[str, ...], _LISTED, AfterValidator(lambda words: tuple(dict.fromkeys(words)))]
Points = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]


@dataclass(frozen=True)
class PageQuery:
    """What a page shows. An empty string stands for the store's first choice: the newest sweep, its first corpus, ...

    Attributes:
        sweep, corpus, model, setup: Which trials; `corpus` includes the task, e.g. `pos UD_Naija-NSC`.
        size, strategy: Train sizes and strategies shown; empty means all.
        embeddings: Trials with frozen embeddings, with trained ones (`learning`), or any.
        metric: Name of a metric; empty means the one that selects the best epoch.
        cost: The cost that freezing should save; where this is the default, the sweep's own.
        axis: The x axis of curves.
        tolerance: Acceptable loss of quality, in points (hundredths of the metric); None for the sweep's own.
        budget: Maximum `cost` of a trial, in the store's unit; None means any.
        freeze: Label of the setting that Tags compares with the baseline.
        level: Whether Tags counts spans, tokens or classes.
        find: Words that each row of the grid of trials holds.
        group: Whether a row of the grid is a trial, or the mean of those with one freeze.
        trials: Ids of the trials picked to be compared, in order.
        sort, filters, columns: Of the grid of trials: `score.desc,seed.asc`, AG Grid's JSON, names of columns; empty
            for the best first, none, and those in which trials differ.
        tag: The list of sweeps has only those with this tag; empty for all.
        theme: light, dark, or auto (as the system).
        pause: Whether the page ignores new rows.
    """

    sweep: str = ""
    corpus: str = ""
    model: str = ""
    setup: str = ""
    size: Sizes = ()
    strategy: Words = ()
    embeddings: Annotated[str, _one_of(EMBEDDINGS)] = "any"
    metric: str = ""
    split: Annotated[str, _one_of(SPLITS)] = "dev"
    cost: Annotated[str, _one_of(COSTS)] = "training_flops"
    axis: Annotated[str, _one_of(AXES)] = "epoch"
    tolerance: Points | None = None
    budget: Amount | None = None
    freeze: str = ""
    level: str = ""
    state: Annotated[str, _one_of(STATES)] = "any"
    find: str = ""
    group: Annotated[str, _one_of(GROUPS)] = "none"
    trials: Words = ()
    sort: str = ""
    filters: Annotated[str, AfterValidator(_filters)] = ""
    columns: Words = ()
    tag: str = ""
    theme: Annotated[str, _one_of(THEMES)] = "auto"
    pause: bool = False

    def search(self) -> str:
        """The query string without defaults; empty if everything has its default."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"?{urlencode({key: _word(value) for key, value in settings.items()}, safe=',')}" if settings else ""

    def but(self, **changes: Any) -> PageQuery:
        """A copy with some changes."""
        return replace(self, **changes)


def parse_query(search: str | None) -> tuple[PageQuery, tuple[str, ...]]:
    """The state in a URL, and a notice for each setting that could not be parsed."""
    try:
        pairs = parse_qsl((search or "").removeprefix("?"), keep_blank_values=True, max_num_fields=60)
    except ValueError:
        return PageQuery(), ("The address has too many settings; all have their defaults.",)
    settings, notices = dict[str, Any](), list[str]()
    readers = _readers()
    for key, text in pairs:
        if key not in readers:
            notices.append(f"The address has an unknown setting {key[:40]!r}.")
            continue
        try:
            settings[key] = readers[key].validate_python(text[: _LONG if key in _LONG_ONES else _LONGEST])
        except ValidationError as error:
            notices.append(f"{key}: {text[:40]!r} {rule_of(error.errors()[0])}; the default is used.")
    return PageQuery(**settings), tuple(notices)


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _readers() -> dict[str, TypeAdapter[Any]]:
    """What reads each setting from its text, by its type."""
    return {name: TypeAdapter(kind) for name, kind in get_type_hints(PageQuery, include_extras=True).items()}


EACH_BEST = "each freeze at its own best"  # in place of a set-up
_ENDED = [state.value for state in State]
_WELL = [State.COMPLETED.value, State.PRUNED.value]


@dataclass(frozen=True)
class Selection:
    """The trials of one sweep, corpus, model and set-up, whose scores may be compared within one train size.

    Attributes:
        sweep: None in a store without planned trials.
        query: With its defaults resolved.
        trials: Rows of `Sweep.trials` with the selected score in `column`. Baselines of the selected trials are
            included even if a filter excludes them.
        column: `score` for a score of 0 to 1, `value` for one that may be negative: their intervals differ.
        value_name: Name of the score, e.g. ``dev accuracy``.
        scored: The split whose score, by the metric that selects epochs, is the selected one; empty for other metrics.
        url_query: The query as the address has it: empty where it leaves the choice to the page.
        scope: Which of several set-ups is shown, and why; empty if there is one.
        notices: What the URL asks for that could not be shown.
        every: The trials that no choice of strategies leaves out; None where `trials` has them all.
    """

    snapshot: Snapshot
    sweep: Sweep | None
    query: PageQuery
    trials: pd.DataFrame
    column: str
    value_name: str
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    scored: str = "dev"
    url_query: PageQuery = field(default_factory=PageQuery)
    scope: str = ""
    every: pd.DataFrame | None = None

    @property
    def question_selection(self) -> Selection:
        """The selection with all settings of each question, whatever is shown, as their intervals hold jointly."""
        return self if self.every is None else replace(self, trials=self.every, every=None)

    @cached_property
    def plan(self) -> DecisionPlan:
        """What answers go by: what the sweep asks, unless the query says otherwise; the cost is the selected one."""
        asks = DecisionPlan() if self.sweep is None else self.sweep.asks
        tolerance = asks.tolerance if self.query.tolerance is None else self.query.tolerance
        return replace(asks, tolerance=tolerance, cost=self.query.cost)

    @cached_property
    def completed(self) -> pd.DataFrame:
        """The trials that enter means, by `state`."""
        return self.trials[(self.trials["state"] == State.COMPLETED.value) & self.trials[self.column].notna()]

    @property
    def with_sentences(self) -> pd.DataFrame:
        """The trials with the columns of `with_sentences`, all None by another metric. Raises StoreError."""
        if not self.scored:
            return with_sentences(self.trials, {})
        columns = sentence_columns(self.snapshot.few["contributions"].rows(self.completed), self.scored)
        return with_sentences(self.trials, columns)

    @property
    def other_trials(self) -> pd.DataFrame:
        """The trials whose `state` is an end other than completed and pruned."""
        return self.trials[self.trials["state"].isin(_ENDED) & ~self.trials["state"].isin(_WELL)]

    @property
    def incomplete(self) -> str:
        """How many planned trials have completed; empty if all have."""
        done = int((self.trials["state"] == State.COMPLETED.value).sum())
        return "" if done == len(self.trials) else f"{done:,} of {len(self.trials):,} planned trials have completed"


def select(snapshot: Snapshot, query: PageQuery) -> Selection:
    """The trials that a query selects, with a notice for everything it names that the store does not have."""
    begun = [name for name, sweep in snapshot.sweeps.items() if len(sweep.trials)]  # a search begins without trials
    if not begun:
        return Selection(snapshot, None, query, _no_trials(), "score", "score", url_query=query)
    chooser = _Chooser()
    sweep = snapshot.sweeps[chooser.choose("sweep", query.sweep, begun)]
    trials = _narrow(sweep.trials, chooser, "corpus", query.corpus, "corpus_key")
    trials = _narrow(trials, chooser, "model", query.model, "model")
    trials, scope = _narrowed_setup(trials, chooser, query.setup)
    sizes = chooser.filter("size", query.size, sorted(trials["train_size"].unique().tolist()))
    strategies = chooser.filter("strategy", query.strategy, trials["strategy"].unique().tolist())
    shown = _where(trials, trials["train_size"].isin(sizes))
    every = shown
    wanted = shown["strategy"].isin(strategies)
    if query.embeddings != "any":
        wanted &= shown["embeddings"] == (query.embeddings == "frozen")
    shown = _where(shown, wanted | shown["cell"].isin(shown.loc[wanted, "baseline"].unique()))
    column, name = _value(shown, chooser, query)
    _choose_more(shown, chooser, query)
    wanted = sweep.asks.cost if query.cost == FLOPS and sweep.asks.cost else query.cost
    resolved = query.but(
        **chooser.chosen,
        size=query.size and tuple(sizes),
        strategy=query.strategy and tuple(strategies),
        cost=_recorded_cost(shown, wanted),
    )
    metric = chooser.chosen["metric"]
    target = "value" if metric in METRICS and METRICS[metric].lowest < 0 else "score"
    is_all = shown is every
    shown = shown.assign(**{target: shown[column]}).reset_index(drop=True)
    whole = None if is_all else every.assign(**{target: every[column]}).reset_index(drop=True)
    scored = {"score": "dev", "test_score": "test"}.get(column, "")
    selection = Selection(
        snapshot, sweep, resolved, shown, target, name, chooser.options, tuple(chooser.notices), scored
    )
    return replace(selection, url_query=query, scope=scope, every=whole)


def page_selection(selection: Selection) -> Selection:
    """All corpora, models and train sizes of the selected sweep, but those that the address excludes, on dev.

    Of several set-ups those of the best for each corpus and model, or the one that the address names.
    """
    whole = whole_sweep(selection)
    url_query, trials = selection.url_query, _matching_trials(selection, whole.trials, "corpus", "model", "size")
    if len(trials) and trials["setup"].nunique() > 1:
        groups = trials.groupby(["corpus_key", "model"], sort=False)
        trials = pd.concat([_narrowed_setup(rows, _Chooser(), url_query.setup)[0] for _, rows in groups])
    return replace(whole, trials=trials)


def listed_selection(selection: Selection) -> Selection:
    """All trials of the selected sweep but those that the address excludes, in whatever set-up and state."""
    whole = whole_sweep(selection)
    url_query = selection.url_query
    trials = _matching_trials(selection, whole.trials, "corpus", "model", "setup", "size", "strategy")
    if url_query.embeddings != "any" and len(trials):
        trials = trials[trials["embeddings"] == (url_query.embeddings == "frozen")]
    return replace(whole, trials=trials)


_COLUMNS = {"corpus": "corpus_key", "model": "model", "setup": "setup", "size": "train_size", "strategy": "strategy"}


def _matching_trials(selection: Selection, trials: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """The trials that the address does not exclude by these keys; what no trial has excludes none."""
    for key in keys:
        if getattr(selection.url_query, key) and len(trials):
            wanted = getattr(selection.query, key)
            kept = trials[_COLUMNS[key]].isin(wanted if isinstance(wanted, tuple) else [wanted])
            trials = trials[kept] if kept.any() else trials
    return trials


def whole_sweep(selection: Selection, sweep: Sweep | None = None) -> Selection:
    """All trials of the selected sweep, or of another one, by the metric that selects its epochs, on dev."""
    sweep = sweep or selection.sweep
    trials = _no_trials() if sweep is None else sweep.trials
    return replace(
        selection, sweep=sweep, trials=trials, every=None, column="score", value_name="dev score", scored="dev"
    )


def corpus_selection(selection: Selection) -> Selection:
    """The trials of the selected corpus with every model and set-up, of the selected train sizes and strategies."""
    if selection.sweep is None or not len(selection.trials):
        return selection
    query, first = selection.query, selection.trials.iloc[0]
    trials = selection.sweep.trials
    kept = (trials["task"] == first["task"]) & (trials["corpus"] == first["corpus"])
    for column in ("train_size", "strategy", "embeddings"):
        kept &= trials[column].isin(selection.trials[column].unique())
    trials = trials[kept].reset_index(drop=True)
    column = _column(query.metric, query.split, str(first["metric"]))
    if column not in trials:
        column = "score"
    return replace(selection, trials=trials.assign(**{selection.column: trials[column]}), every=None)


def state_of(sweep: Sweep) -> str:
    """`running`; without a driver `finished`, or `stopped` where trials have not ended."""
    if sweep.is_running:
        return "running"
    return "stopped" if sweep.trials["state"].isin(["planned", "missing", "running"]).any() else "finished"


def _choose_more(trials: pd.DataFrame, chooser: _Chooser, query: PageQuery) -> None:
    """What Tags compares and counts."""
    freezes = trials.loc[trials["cell"] != trials["baseline"], ["depth", "freeze"]].drop_duplicates("freeze")
    frozen = freezes.sort_values("depth", ascending=False, kind="stable")
    labels = frozen["freeze"].tolist() or trials["freeze"].unique().tolist()
    if labels:
        chooser.choose("freeze", query.freeze, labels)
    task = TASKS.get(trials["task"].iloc[0]) if len(trials) else None
    chooser.choose("level", query.level, [*task.levels] if task else ["span", "token", "class"])


def _recorded_cost(trials: pd.DataFrame, wanted: str) -> str:
    """The cost to show; another one where completed trials are older than the count of operations."""
    default = default_saving(trials)
    if wanted != FLOPS or default == FLOPS or not (trials["state"] == State.COMPLETED.value).any():
        return wanted
    return default


class _Chooser:
    """Resolves the values of controls, and collects their choices."""

    def __init__(self) -> None:
        self.chosen: dict[str, str] = {}
        self.options: dict[str, list[str]] = {}
        self.notices: list[str] = []

    def choose(self, key: str, wanted: str, options: Sequence[str]) -> str:
        self.options[key] = list(options)
        if wanted and wanted not in options:
            self.notices.append(f"There is no {key} {wanted[:60]!r} here; {options[0]!r} is shown.")
        self.chosen[key] = wanted if wanted in options else options[0]
        return self.chosen[key]

    def filter(self, key: str, wanted: Iterable[object], options: Sequence[object]) -> list[object]:
        self.options[key] = [str(word) for word in options]
        absent = [str(word) for word in wanted if word not in options]
        if absent:
            self.notices.append(f"There is no {key} {', '.join(absent)[:60]} here.")
        return [word for word in wanted if word in options] or list(options)


def _narrow(trials: pd.DataFrame, chooser: _Chooser, key: str, wanted: str, column: str) -> pd.DataFrame:
    return _where(trials, trials[column] == chooser.choose(key, wanted, trials[column].unique().tolist()))


def _where(trials: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    """The trials for which `rows` (trials,) is true; the same frame if all are, as copying takes most of the time."""
    return trials if rows.all() else trials[rows]


def _narrowed_setup(trials: pd.DataFrame, chooser: _Chooser, wanted: str) -> tuple[pd.DataFrame, str]:
    """The trials of the named set-up, of the best one, or of each freeze's own best, and a description of which.

    With their baselines, whose set-up label may differ.
    """
    if len(alone := trials["setup"].unique()) == 1:
        chooser.choose("setup", wanted, alone.tolist())
        return trials, ""
    frozen = trials[trials["cell"] != trials["baseline"]]
    setups = (frozen if len(frozen) else trials)["setup"].unique().tolist()
    best = _best_setup(trials[trials["setup"].isin(setups)])
    chosen = chooser.choose("setup", wanted, [best, EACH_BEST, *(name for name in setups if name != best)])
    if chosen == EACH_BEST:
        return _each_at_its_best(trials), f"Each freeze at its own best of {len(setups)} set-ups on dev."
    mine = trials["setup"] == chosen
    shown = _where(trials, mine | trials["cell"].isin(trials.loc[mine, "baseline"].unique()))
    which = f"best of {len(setups)} on dev." if chosen == best else f"one of {len(setups)} set-ups."
    return shown, f"{chosen}: {which}"


_FREEZE = ["task", "corpus", "model", "train_size", "freeze"]


def _best_setup(trials: pd.DataFrame) -> str:
    """The set-up of the setting with the highest mean dev score; the first one if no trial has completed.

    A search tries many, and nobody wants to read its worst. The score of the winner is a little too high for that; test
    stays unseen. Settings with less than half of the most replicates do not
    count: a single lucky run would win.
    """
    means = _means(trials)
    return str(trials["setup"].iloc[0] if means.empty else means.sort_values("mean", kind="stable")["setup"].iloc[-1])


def _each_at_its_best(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials of every freeze in the set-up that is best for it, each with the baseline at its own best."""
    means = _means(trials).sort_values("mean", kind="stable")
    best = means.drop_duplicates(_FREEZE, keep="last")
    of_baseline = best[best["cell"] == best["baseline"]].set_index(_FREEZE[:-1])["cell"]
    kept = trials[trials["cell"].isin(best["cell"])]
    own = of_baseline.reindex(pd.MultiIndex.from_frame(kept[_FREEZE[:-1]])).to_numpy()
    return kept.assign(baseline=pd.Series(own, index=kept.index).fillna(kept["baseline"]))


def _means(trials: pd.DataFrame) -> pd.DataFrame:
    done = trials[(trials["state"] == State.COMPLETED.value) & trials["score"].notna()]
    columns = ["cell", "baseline", "setup", *_FREEZE]
    means = done.groupby("cell", sort=False)["score"].agg(["mean", "size"]).reset_index()
    means = means.merge(done[columns].drop_duplicates("cell"), on="cell")
    # A search stops weak set-ups early: one with few replicates may owe its mean to luck.
    return means[means["size"] >= means["size"].max() / 2]


def _value(trials: pd.DataFrame, chooser: _Chooser, query: PageQuery) -> tuple[str, str]:
    own = str(trials["metric"].iloc[0]) if len(trials) else "score"
    recorded = [str(column).removeprefix("dev:") for column in trials if str(column).startswith("dev:")]
    metrics = [own, *(name for name in dict.fromkeys([*(m.name for m in METRICS.values()), *recorded])
                    if name != own and name in recorded)]  # fmt: skip
    metric = chooser.choose("metric", query.metric, metrics)
    column = _column(metric, query.split, own)
    if column not in trials:
        chooser.notices.append(f"There is no {metric} on {query.split} here; dev {own} is shown.")
        return "score", f"dev {metric_label(own)}"
    return column, f"{query.split} {metric_label(metric)}"


def _column(metric: str, split: str, own: str) -> str:
    """The column with a metric on a split; `own` is the metric that selects epochs."""
    return {"dev": "score", "test": "test_score"}[split] if metric == own else f"{split}:{metric}"


def _no_trials() -> pd.DataFrame:
    names = "trial_id t cell baseline state value seed train_size strategy depth freeze freeze_spec embeddings n_layers"
    return pd.DataFrame({name: pd.Series(dtype=object) for name in names.split()})


_DIGITS = 10  # of a commit


def versions_of(store: ResultStore) -> dict[str, str]:
    """Versions of Python and packages that the ended trials used; several if they differ."""
    by_package: dict[str, set[str]] = {}
    for versions in set(map(tuple, filter(None, store.trials(["versions"])["versions"].to_pylist()))):
        for name, version in versions:
            by_package.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(several)) for name, several in by_package.items()}


class Provenance(NamedTuple):
    """What is needed to reproduce the numbers.

    Attributes:
        line: Everything in one line.
        corpora: Their names, for a caption.
        config: First 12 hex digits of SHA-256 over the ids of the selected trials, which depend on every setting.
        commits, devices: Of the trials that ended, the most frequent first.
    """

    line: str
    corpora: str
    config: str
    commits: tuple[str, ...]
    devices: tuple[str, ...]


_MOST = 12  # names of one kind on a line


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more if names else "none"


def short_commit(commit: str) -> str:
    """Ten digits of a commit, and its `+` where the code was changed."""
    return commit[:_DIGITS] + "+" * (commit.endswith("+") and len(commit) > _DIGITS)


def provenance(selection: Selection) -> Provenance:
    """The provenance of the selected trials."""
    trials, snapshot = selection.trials, selection.snapshot
    config = hashlib.sha256("\n".join(sorted(trials["trial_id"])).encode()).hexdigest()[:12]
    specs = [snapshot.specs[cell] for cell in trials["cell"].unique()]
    data = tuple(dict.fromkeys(f"{spec.data.name} {spec.data.fingerprint[:12]}" for spec in specs))
    setups = tuple(escape_line(str(setup)) for setup in trials["setup"].unique() if setup) if "setup" in trials else ()
    commits, devices = _frequent(selection, "git_commit"), _frequent(selection, "device")
    planned = 0 if selection.sweep is None else len(selection.sweep.trials)
    query = selection.url_query.but(theme="auto", pause=False).search()
    parts = (
        f"sweep {selection.query.sweep or 'none'} (config {config})",
        ", ".join([selection.value_name, *([_some(setups)] if setups else [])]),
        f"commit {', '.join(map(short_commit, commits[:3])) or 'none'}",
        f"data {_some(data)}",
        f"device {_some(devices)}",
        f"{len(trials):,} of {amount(planned, 'trial')} shown, {len(selection.completed):,} completed",
        f"{len(snapshot.evaluations):,} evaluations in the store",
        f"last row {_utc(snapshot.last_row) or 'none'}",
        *([f"address {escape_line(query)}"] if query else []),
    )
    corpora = _some(tuple(dict.fromkeys(dataset.rpartition(" ")[0] for dataset in data)))
    return Provenance(" · ".join(parts), corpora, config, commits, devices)


def _frequent(selection: Selection, column: str) -> tuple[str, ...]:
    if column not in selection.trials:
        return ()
    return tuple(escape_line(str(name)) for name in selection.trials[column].dropna().value_counts().index)


def _utc(stamp: float | None) -> str:
    return "" if stamp is None else datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
