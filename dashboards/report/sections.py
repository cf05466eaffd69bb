"""The sections of a report: one for each set of trials whose scores may be compared, with its answers and methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboards.data.frames import Snapshot
from dashboards.data.selection import COSTS, PageQuery, Provenance, Selection, provenance, select
from dashboards.views.kit.cards import answers_of_page
from dashboards.views.kit.drawing import LIGHT, freeze_column
from dashboards.views.kit.part import Drawn, EmptyPartError, Part, compute
from dashboards.views.registry import PARTS
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.savings import savings
from orchestrator.analysis.wording import HOW_DECIDED, saves_sentence
from orchestrator.config.quantities import amount, points
from trials.errors import NothingMatchedError
from trials.spec import Seeds, TrialSpec

Steps = Callable[[str, int, int | None], None]  # is called with what is being made, how many are done, and the total
_MOST_SEEDS = 120  # characters
STATISTICS = (
    "What is estimated is the mean loss of a freeze against its baseline over training randomness (the seeds) and "
    "over sentences of the source of the dev set. Only completed trials enter a mean; the others are counted and "
    "shown. Pairs with a run that collapsed (at or below the best constant prediction, or without a fall of its "
    f"training loss) are left out and counted. Standard deviations divide by n - 1. {HOW_DECIDED} Savings are "
    "geometric means of paired ratios on one device. "
    "The test split is scored once, with the weights of the best epoch on dev, and selects nothing."
)


def method(selection: Selection, versions: dict[str, str]) -> tuple[str, ...]:
    """What was run and how it was evaluated, a sentence or more each."""
    specs = [selection.snapshot.specs[cell] for cell in selection.trials["cell"].unique()]
    spec = next((s for s in specs if not s.freeze.is_baseline), specs[0])
    return (_trials(selection), _model_and_data(spec), _recipe(spec), _hardware(selection, versions), STATISTICS)


def _trials(selection: Selection) -> str:
    trials = selection.trials
    states = trials["state"].value_counts()
    counts = ", ".join(f"{n} {str(state).replace('_', ' ')}" for state, n in states.items())
    sizes = ", ".join(f"{size:,}" for size in sorted(trials["train_size"].unique().tolist()))
    ordered = trials.sort_values(["depth", "strategy", "embeddings"])
    freezes = ", ".join(dict.fromkeys(freeze_column(ordered["freeze_spec"], ordered["n_layers"])))
    seeds = ", ".join(map(Seeds.label_of, sorted(trials["seed"].unique().tolist())))
    if len(seeds) > _MOST_SEEDS:
        seeds = f"{seeds[:_MOST_SEEDS].rpartition(',')[0]}, ..."
    return (
        f"{len(trials)} trials ({counts}) that the sweep declares: frozen {freezes}; train size {sizes} (nested "
        f"subsets); seed {seeds}."
    )


def _model_and_data(spec: TrialSpec) -> str:
    sizes = (
        "" if spec.data.sizes is None else " ({:,} / {:,} / {:,} items in train / dev / test)".format(*spec.data.sizes)
    )
    source = f", source {spec.data.source}" if spec.data.source else ""
    return (
        f"Model {spec.model.name} ({spec.model.family}, {spec.model.n_layers} layers, files' digest "
        f"{spec.model.revision[:12]}); task {spec.task} on {spec.data.name}{sizes}{source}, files' digest "
        f"{spec.data.fingerprint[:12]}."
    )


def _recipe(spec: TrialSpec) -> str:
    optim = spec.optim
    head = "" if optim.head_lr is None else f" ({optim.head_lr:g} for the head)"
    clip = "no clipping" if optim.max_grad_norm is None else f"gradient norm at most {optim.max_grad_norm:g}"
    decay = "" if optim.layer_decay is None else f", layer-wise decay {optim.layer_decay:g}"
    lora = "" if spec.lora is None else f", LoRA {spec.lora.label}"
    thaw = "" if spec.thaw_every is None else f", one more layer unfrozen every {spec.thaw_every} epochs"
    frozen = "with" if spec.frozen_dropout else "without"
    lower = ", lower-cased" if spec.lowercase else ""
    warmup = f"warm-up over {100 * optim.warmup:g} % of the steps" if optim.warmup else "no warm-up"
    often = "after every epoch" if spec.eval_every == 1 else f"every {spec.eval_every:g} epochs"
    return (
        f"AdamW, learning rate {optim.lr:g}{head}, weight decay {optim.weight_decay:g}, {warmup}, "
        f"{optim.schedule} schedule{decay}, {clip}; batches of {optim.batch_size} ({spec.batching}), "
        f"{amount(optim.epochs, 'epoch')}, evaluated on dev {often}; {spec.precision}, at most {spec.max_length} "
        f"subwords{lower}; frozen parts {frozen} dropout{lora}{thaw}."
    )


def _hardware(selection: Selection, versions: dict[str, str]) -> str:
    source = provenance(selection)
    threads = ", ".join(f"{n:g}" for n in sorted(selection.trials["threads"].dropna().unique().tolist()))
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    cpu = f"{threads or 'an unknown number of'} CPU thread{'s' * (threads != '1')}"
    where = f"{', '.join(source.devices) or 'no device yet'} with {cpu} per trial"
    commit = ", ".join(source.commits) or "unknown"
    return f"Ran on {where}; {packages or 'versions unknown'}; commit {commit}; configuration digest {source.config}."


def answer_lines(selection: Selection) -> tuple[str, ...]:
    """The score without freezing, and what to freeze with what it saves, by train size."""
    lines = list(_baselines(selection))
    try:
        answers = answers_of_page(selection).answers
    except EmptyPartError as error:
        return (*lines, str(error))
    for answer in answers:
        tolerance = f"tolerance {amount(answer.tolerance, 'point')}"
        lines.append(f"Train size {answer.train_size:,}, {tolerance}: {answer.sentence}")
        if (chosen := answer.decided_by.choice) is not None:
            costs = savings(selection.question_selection.trials)
            lines += filter(None, [saves_sentence(costs[costs["cell"] == chosen["cell"]], COSTS)])
    return tuple(lines)


def _name_selection(selection: Selection) -> Selection:
    """The selection with an address that names its corpus, model and set-up."""
    query = selection.query
    named = selection.url_query.but(corpus=query.corpus, model=query.model, setup=query.setup)
    return replace(selection, url_query=named)


def _baselines(selection: Selection) -> Iterable[str]:
    """The score without freezing, by train size."""
    keys = ["train_size", "cell", "baseline"]
    cells = describe_cells(selection.trials, keys, selection.column)
    for row in cells[cells["cell"] == cells["baseline"]].sort_values("train_size").itertuples():
        interval = "" if row.dots_only else f" (95 % interval over seeds {points(row.low)} to {points(row.high)})"
        score = f"{selection.value_name} is {points(row.mean)} %{interval}, n={row.n}"
        yield f"Train size {row.train_size:,}: without freezing, {score}."


@dataclass(frozen=True)
class Section:
    """One corpus, model and set-up.

    Attributes:
        key: Unique, for file names and anchors: letters, digits and dashes.
        title: Corpus, model and set-up.
        answers: Sentences with the results and their intervals.
        method: Sentences about what was run and how it was evaluated.
        parts: Every part that has something to show, in the order of the views.
        empty: The titles of the other parts, and why they are empty.
    """

    key: str
    title: str
    selection: Selection
    answers: tuple[str, ...]
    method: tuple[str, ...]
    parts: tuple[tuple[Part[Any], Drawn], ...]
    empty: tuple[tuple[str, str], ...]

    @property
    def provenance(self) -> Provenance:
        """Where the section's numbers come from."""
        return provenance(self.selection)


def sections(
    snapshot: Snapshot, query: PageQuery, versions: dict[str, str], progress: Steps = lambda name, done, total: None
) -> list[Section]:
    """All sections of a sweep.

    Args:
        query: Names the sweep and may narrow it; its tolerance and cost are used for the answers.
        versions: Versions of Python and packages, as recorded with the trials.
        progress: Is told how many figures and tables are computed.

    Raises:
        NothingMatchedError: the store has no such sweep, or it has no trial.
    """
    require_sweep(snapshot, query.sweep)
    selections = [
        _name_selection(select(snapshot, model))  # the best one of several set-ups
        for corpus in _each(snapshot, query, "corpus")
        for model in _each(snapshot, corpus, "model")
    ]
    if not selections:
        raise NothingMatchedError(f"sweep {query.sweep}: has no trial.")
    parts = [part for part in PARTS.values() if not part.of_store]
    all_sections = []
    for number, selection in enumerate(selections):
        drawn: list[tuple[Part[Any], Drawn]] = []
        for part in parts:
            progress("figures and tables", number * len(parts) + len(drawn), len(selections) * len(parts))
            drawn.append((part, compute(part, selection, LIGHT)))
        all_sections.append(_section(number + 1, selection, versions, drawn))
    progress("figures and tables", len(selections) * len(parts), len(selections) * len(parts))
    return all_sections


def methods(all_sections: Sequence[Section]) -> tuple[list[str], list[tuple[Section, list[str]]]]:
    """The sentences on methods that all sections share, then each section with the sentences of its own."""
    shared = [line for line in all_sections[0].method if all(line in section.method for section in all_sections)]
    own = [(section, [line for line in section.method if line not in shared]) for section in all_sections]
    return shared, [(section, lines) for section, lines in own if lines]


def _each(snapshot: Snapshot, query: PageQuery, key: str) -> Iterator[PageQuery]:
    """The query for each value of a key that it does not exclude, in the sweep's order."""
    if getattr(query, key):
        yield query
        return
    for word in select(snapshot, query).options.get(key, ()):
        yield query.but(**{key: word})


def _section(
    number: int, selection: Selection, versions: dict[str, str], drawn: Sequence[tuple[Part[Any], Drawn]]
) -> Section:
    query = selection.query
    setup = f", {query.setup}" if query.setup else ""
    return Section(
        key=f"s{number}",
        title=f"{query.corpus}, {query.model}{setup}",
        selection=selection,
        answers=answer_lines(selection),
        method=method(selection, versions),
        parts=tuple((part, result) for part, result in drawn if not result.why_empty),
        empty=tuple((part.title, result.why_empty) for part, result in drawn if result.why_empty),
    )


def require_sweep(snapshot: Snapshot, name: str) -> None:
    """Raise NothingMatchedError if the store has no sweep of this name."""
    if name not in snapshot.sweeps:
        names = ", ".join(snapshot.sweeps) or "none"
        raise NothingMatchedError(f"{snapshot.address}: has no sweep {name!r}. It has: {names}.")
