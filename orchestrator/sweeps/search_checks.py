"""What a sweep's search, schedule, race and goal ask for that cannot be, told by key before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orchestrator.analysis.cells import objective_group
from orchestrator.config.yaml_document import Document, KeyPath
from orchestrator.sweeps.search_spec import COSTS
from trials.errors import ConfigError, unknown
from trials.spec import TrialSpec
from trials.tasks import TASKS

if TYPE_CHECKING:  # the sweep's keys are made of what is beside this module
    from orchestrator.sweeps.sweep import SweepSpec

Problem = tuple[KeyPath, str]


def check_search(sweep: SweepSpec, trials: Sequence[TrialSpec], document: Document) -> None:
    """Look at a sweep with its trials, or, of a search that learns, with samples of them.

    Raises:
        ConfigError: with every mistake, each by file, line and key.
    """
    found = [*_contradictions(sweep), *_objectives(sweep, trials), *_ranks(sweep, trials), *_goal(sweep, trials)]
    if found:
        raise ConfigError([document.place(path) + text for path, text in found])


def _contradictions(sweep: SweepSpec) -> Iterator[Problem]:
    scheduled, learns = sweep.schedule.kind != "none", sweep.search.is_adaptive
    asked = {"schedule": scheduled, "racing": sweep.racing is not None, "goal": sweep.goal is not None}
    given = [key for key, is_given in asked.items() if is_given]
    if len(given) > 1:
        yield (given[-1],), f"{' and '.join(given)} each decide what runs. Keep one."
    if learns and (sweep.racing or sweep.goal):
        key = "racing" if sweep.racing else "goal"
        yield (
            (key,),
            f"needs all cells from the start, and `search: {sweep.search.kind}` finds them on the way. Use a grid.",
        )
    if sweep.racing and len(set(sweep.seeds)) < 2:
        yield ("racing",), "spends seeds where they decide, and the sweep has one. List more under `seeds`."
    if sweep.schedule.kind in ("asha", "halving") and sweep.checkpoint.is_off:
        yield (
            ("schedule",),
            (
                f"{sweep.schedule.kind} goes on with paused trials, and with `checkpoint: off` they would begin again. "
                "Leave `checkpoint` out, or use `schedule: median`, which only stops."
            ),
        )


def _objectives(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    tasks = sorted({spec.task for spec in trials})
    for i, name in enumerate(sweep.search.objectives):
        for task in tasks:
            known = ["score", *TASKS[task].metrics, *COSTS]
            if name not in known:
                yield ("search", "objectives", i), f"{unknown(name, known)} ({task} reports these.)"
                break


def _ranks(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """Scores of different objective groups do not compare."""
    groups = list(dict.fromkeys(map(objective_group, trials)))
    if len(groups) > 1 and sweep.search.is_adaptive:
        yield (
            ("search",),
            (
                f"{sweep.search.kind} ranks cells by their scores, and these are of {_named(groups)}, which do not "
                "compare. Make a sweep of each, or use `search: random`."
            ),
        )
    if len(groups) > 1 and sweep.schedule.kind != "none" and not sweep.schedule.each_group:
        yield (
            ("schedule",),
            (
                f"{sweep.schedule.kind} ranks cells by their scores, and these are of {_named(groups)}, which do not "
                "compare. Give `each_group: true` to rank inside each, or make a sweep of each."
            ),
        )
    if sweep.schedule.kind in ("asha", "halving") and trials:
        by_examples = sweep.schedule.by == "examples"
        end = max(spec.optim.epochs * (spec.train_size if by_examples else 1) for spec in trials)
        if sweep.schedule.first >= end:
            yield (
                ("schedule", "first"),
                (
                    f"{sweep.schedule.first:g} {sweep.schedule.by} are the whole of every trial (at most {end}). "
                    "Give less."
                ),
            )


def _named(groups: Sequence[tuple[str, str, str, int]]) -> str:
    shown = [f"{corpus} with {size:,} ({metric})" for _, metric, corpus, size in groups[:2]]
    return f"{len(groups)} objective groups ({', '.join(shown)}{', ...' if len(groups) > 2 else ''})"


def _goal(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """A depth is chosen in one set-up, against one baseline."""
    if sweep.goal is None:
        return
    path = ("goal", "choose_depth")
    if not any(spec.freeze.is_baseline for spec in trials):
        yield path, "compares with a baseline, and no cell of the space freezes nothing. Add `none` to `freeze`."
    elif len({spec.baseline_id for spec in trials}) > 1:
        yield (
            path,
            (
                "needs one baseline, and the cells differ in more than their freeze. Let only `freeze` vary, and "
                "make a sweep of each other setting."
            ),
        )
    if not any(not spec.freeze.is_baseline for spec in trials):
        yield path, "has no freeze to choose. Add some to `freeze`."
    freezes = sorted({spec.freeze for spec in trials}, key=lambda one: (one.depth, one.embeddings))
    for less, more in itertools.pairwise(freezes):
        if not set(less.layers) <= set(more.layers) or less.embeddings > more.embeddings:
            yield (
                path,
                (
                    f"goes from the least frozen to the most, and {more.label} does not freeze all that {less.label} "
                    "does. Keep one strategy, with or without the embeddings."
                ),
            )
            break
    least = sweep.goal.choose_depth.min_seeds
    if len(set(sweep.seeds)) < least:
        yield path, f"judges a depth by {least} seeds at least, and the sweep has {len(set(sweep.seeds))}. List more."
