"""Whether what a sweep asks of its search, schedule and goal fits its trials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orchestrator.analysis.cells import cell_specs, objective_group
from orchestrator.config.yaml_document import Document, KeyPath
from trials.errors import ConfigError, missing_package, unknown_name
from trials.spec import TrialSpec
from trials.tasks import TASKS

if TYPE_CHECKING:
    from orchestrator.sweeps.sweep import SweepSpec


Problem = tuple[KeyPath, str]


def check_search(sweep: SweepSpec, trials: Sequence[TrialSpec], document: Document) -> None:
    """Validate a sweep with its trials (for an adaptive search, with samples of them). Raises ConfigError."""
    problems = [*_contradictions(sweep), *_objective(sweep, trials), *_ranks(sweep, trials), *_goal(sweep, trials)]
    problems += [*_pairs(sweep, trials), *_packages(sweep, trials)]
    if problems:
        raise ConfigError([document.place(path) + text for path, text in problems])


def _packages(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """A launch would find out after its Ray has started."""
    if sweep.search.is_adaptive and (problem := missing_package("optuna", "search", f"`search: {sweep.search.kind}`")):
        yield ("search",), problem
    if any(spec.lora for spec in trials) and (problem := missing_package("peft", "lora", "`lora`")):
        yield ("trial", "lora"), problem


def _contradictions(sweep: SweepSpec) -> Iterator[Problem]:
    if sweep.chooses_depth and sweep.schedule.kind != "none":
        yield ("goal",), "schedule and goal exclude each other, as each decides what runs. Keep one."
    if sweep.chooses_depth and sweep.search.is_adaptive:
        yield (
            ("goal",),
            f"needs all cells from the start, but `search: {sweep.search.kind}` chooses them from results. Use a grid.",
        )


def _pairs(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """`choose_depth` compares cells under the same seeds."""
    if sweep.chooses_depth and len({tuple(s.seeds for s in cell) for cell in cell_specs(trials).values()}) > 1:
        yield (
            ("goal",),
            "compares cells under the same seeds, but `init_seed` or `order_seed` differ between cells. Give every "
            "cell the same ones in a grid.",
        )


def _objective(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    name, path = sweep.search.objective, ("search", "objective")
    if name.startswith("test"):
        yield path, f"{name}: a search selects on dev, and the test split shows how good its choice is. Use `score`."
        return
    for task in sorted({spec.task for spec in trials}):
        allowed = ["score", *TASKS[task].metrics]
        if name not in allowed:
            yield path, f"{unknown_name(name, allowed)} ({task} reports these.)"
            return  # other tasks lack it as well, and one line is enough to fix the key


def _ranks(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """Scores of different objective groups are not comparable."""
    groups = list(dict.fromkeys(map(objective_group, trials)))
    if len(groups) > 1 and sweep.search.is_adaptive:
        yield (
            ("search",),
            (
                f"{sweep.search.kind} ranks cells by score, but these belong to {_names_of(groups)}, which are not "
                "comparable. Make one sweep per group, or use `search: random`."
            ),
        )
    if len(groups) > 1 and sweep.schedule.kind != "none" and not sweep.schedule.each_group:
        yield (
            ("schedule",),
            (
                f"{sweep.schedule.kind} ranks cells by score, but these belong to {_names_of(groups)}, which are not "
                "comparable. Set `each_group: true` to rank within each group, or make one sweep per group."
            ),
        )
    if sweep.schedule.kind == "asha" and trials:
        by_examples = sweep.schedule.by == "examples"
        end = max(spec.optim.epochs * (spec.train_size if by_examples else 1) for spec in trials)
        if sweep.schedule.first >= end:
            yield (
                ("schedule", "first"),
                (
                    f"{sweep.schedule.first:g} {sweep.schedule.by} cover every trial completely (at most {end}). "
                    "Use a smaller value."
                ),
            )


def _names_of(groups: Sequence[tuple[str, str, str, int]]) -> str:
    shown = [f"{corpus} with {size:,} ({metric})" for _, metric, corpus, size in groups[:2]]
    return f"{len(groups)} objective groups ({', '.join(shown)}{', ...' if len(groups) > 2 else ''})"


def _goal(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """`choose_depth` needs one set-up with one baseline."""
    if sweep.goal is None or sweep.goal.choose_depth is None:
        return
    path = ("goal", "choose_depth")
    n_cells = len({spec.cell_id for spec in trials})
    if not any(spec.freeze.is_baseline for spec in trials):
        yield path, "needs a baseline, but every cell freezes something. Add `none` to `freeze`."
    # All at one rate, as each freeze may have its own; more cells than freezes differ in something else.
    elif len({spec.with_rate(1.0).baseline_id for spec in trials}) > 1 or n_cells > len(
        {spec.freeze for spec in trials}
    ):
        yield (
            path,
            (
                "needs one baseline, but the cells differ in more than their freeze. Vary only `freeze` (each may have "
                "a learning rate of its own), and make one sweep per other setting."
            ),
        )
    if not any(not spec.freeze.is_baseline for spec in trials):
        yield path, "has no freeze to choose. Add some to `freeze`."
    freezes = sorted({spec.freeze for spec in trials}, key=lambda freeze: freeze.extent)
    for less, more in itertools.pairwise(freezes):
        if not more.holds(less):
            yield (
                path,
                (
                    f"needs freezes that contain each other, but {more.label} does not freeze all that {less.label} "
                    "does. Keep one strategy, with or without the embeddings."
                ),
            )
            break
    least = sweep.goal.choose_depth.min_seeds
    if len(set(sweep.seeds)) < least:
        yield path, f"needs at least {least} seeds, but the sweep has {len(set(sweep.seeds))}. List more under `seeds`."
