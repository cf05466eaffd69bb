"""The page of findings, from the store of FreezeBench: every figure on it is one that `permafrost answer` prints.

python -m docs.findings writes the page, which is part of the repository; its figures are drawn by the command that the
page names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.analysis.answer import Answer, beside, questions
from orchestrator.analysis.answer_text import curve_lines
from orchestrator.analysis.cells import strip_and_word
from orchestrator.api import answer, open_store
from orchestrator.search.depth_search import Depths, DepthSearch
from orchestrator.search.simulate import recorded_trials, simulate
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.contents import SweepPlan
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec
from trials.spec import TrialSpec
from trials.tasks import TASKS

ROOT = Path(__file__).parents[1]
STORE = "configs/freezebench/store"
PAGE = "explanation/findings.md"
NESTED = ("none", "first_k", "all_encoder")  # strategies whose freezes a search can walk
TOLERANCES = (1.0, 3.0, 10.0)  # points, of the replayed searches
HALF = 3  # layers that every freeze of layers.yaml holds

_TOP = """# Findings: what freezing costs on encoders that people use

[FreezeBench](../../../configs/freezebench/README.md) trains pretrained encoders on five corpora, with the same recipe,
subsets and seeds for every freeze. {n_trials} of its trials have run; this page is written from them by
`python -m docs.findings`, and grows with them. Each line is an answer of `permafrost answer`: a loss is that of the
baseline with the same seed, in points of the score, with the interval that decides ([how](intervals.md)); savings are
training FLOPs, which are exact. `permafrost demo` opens the same trials.

![Loss against training FLOPs saved, a panel a corpus](../pictures/findings.svg)

Drawn by `permafrost export figure answer-losses --store {store} --url '?sweep=freezebench-core' -o findings.svg`.
"""
_SWEEPS = {
    "freezebench-core": "How much, on 500 examples",
    "freezebench-small": "Does freezing help where there is little to learn from? 100 examples",
    "freezebench-layers": "Which half of the layers",
    "freezebench-mpnet": "A larger encoder",
}
_AGAINST = """Against freezing the first three layers, with the same seeds (below 0: loses less than the first three):

| corpus | frozen | loss against the first three (interval) | |
|---|---|---|---|
"""
_SEARCHES = """## What `choose_depth` would have spent

The same trials replayed, as `permafrost launch --simulate` does: the search asks for one after the other, none trains,
and it stops once the deepest freeze within the tolerance is decided or cannot be with the seeds that there are.

| corpus | encoder | train size | tolerance | trials of the grid | chosen |
|---|---|---|---|---|---|
"""
_END = """## What cannot be told yet

{undecided}- Times: the trials ran beside other work on two cores, so only FLOPs are reported.
- More than 500 examples, and each depth on its own: `minilm.yaml` has them, and has not run as a whole.
"""


def page() -> str:
    """The page in Markdown. Raises StoreError: there is no store."""
    store = open_store(str(ROOT / STORE))
    planned = {plan.name for plan in store.sweeps()}
    sections, undecided = list[str](), list[str]()
    for sweep, title in _SWEEPS.items():
        answers = list(answer(str(ROOT / STORE), sweep)) if sweep in planned else []
        decidable = [each for each in answers if _has_interval(each)]
        if decidable:
            against = list(_against_first(store)) if sweep == "freezebench-layers" else []
            comparison = [_AGAINST + "\n".join(against) + "\n"] if against else []
            sections += [f"## {title}\n", _overview(decidable), *map(_section, decidable), *comparison]
        if rest := ", ".join(each.corpus for each in answers if not _has_interval(each)):
            undecided.append(f"- {title}: anything on {rest}, where fewer than three seeds have run.\n")
        elif not answers:
            undecided.append(f"- {title}: no trial of it has run.\n")
    searches = list(_searches(store))
    top = _TOP.format(n_trials=len(store.completed_ids()), store=STORE)
    replayed = [_SEARCHES + "\n".join(searches) + "\n"] if searches else []
    return "\n".join([top, *sections, *replayed, _END.format(undecided="".join(undecided))])


def _specs(plan: SweepPlan) -> list[TrialSpec]:
    return [TrialSpec.model_validate(content) for _, content in plan.trials]


def _has_interval(each: Answer) -> bool:
    return any(row["low"] is not None for row in each.settings)


def _overview(answers: list[Answer]) -> str:
    """A row for each corpus: the loss of each freeze in points, with the interval that decides."""
    freezes = dict.fromkeys(row["freeze"] for each in answers for row in each.settings)
    strips = [strip_and_word(freeze, answers[0].n_layers) for freeze in freezes]
    lines = [f"| corpus | score | {' | '.join(strips)} |", f"|---|---|{'---|' * len(strips)}"]
    for each in answers:
        rows = {row["freeze"]: row for row in each.settings}
        losses = " | ".join(map(_loss, map(rows.get, freezes)))
        lines.append(f"| {each.corpus} | {TASKS[each.task].score} | {losses} |")
    return "\n".join([*lines, ""])


def _loss(row: dict[str, Any] | None) -> str:
    if row is None or row["loss"] is None:
        return ""
    return f"{row['loss']:.2f}" + ("" if row["low"] is None else f" ({row['low']:.2f} to {row['high']:.2f})")


def _section(each: Answer) -> str:
    lines = "\n".join(line.rstrip() for line in curve_lines(each))
    return f"### {each.heading}\n\n{each.sentence}\n\n```text\n{lines}\n```\n"


def _against_first(store: ResultStore) -> Iterator[str]:
    """A row for each other half of the layers: its loss with the first half as the baseline."""
    for plan in store.sweeps():
        if plan.name == "freezebench-layers":
            trials = store.evidence(_specs(plan))
            for rows in questions(trials.frame):
                first = rows[(rows["strategy"] == "first_k") & (rows["depth"] == HALF)]
                for row in beside(rows, first["cell"].iloc[0]):
                    if row["freeze"] != "none" and row["low"] is not None:
                        strip = strip_and_word(row["freeze"], rows["n_layers"].iloc[0])
                        ends = _loss(row)
                        yield f"| {rows['corpus'].iloc[0]} | {strip} | {ends} | {row['difference']} |"


def _searches(store: ResultStore) -> Iterator[str]:
    """A row for each grid of nested freezes whose trials have all run, and tolerance."""
    recorded = recorded_trials(store)
    grids: dict[str, dict[str, TrialSpec]] = {}
    for plan in store.sweeps():
        for spec in _specs(plan):
            if spec.freeze.strategy in NESTED and plan.name != "freezebench-layers":
                grids.setdefault(spec.baseline_id, {})[spec.trial_id] = spec
    for grid in grids.values():
        if grid.keys() <= recorded.keys():
            first, depths = next(iter(grid.values())), Depths.of(list(grid.values()))
            for tolerance in TOLERANCES:
                goal = GoalSpec(choose_depth=DepthGoalSpec(tolerance=tolerance))
                search = DepthSearch(goal, depths, StoredTrials(ResultStore(Path("nothing"))))
                spent = simulate(search, recorded)
                chosen = search.answer().chosen
                yield (
                    f"| {first.data.name} | {first.model.name} | {first.train_size:,} | {tolerance:g} | "
                    f"{spent.trials} of {len(grid)} | {'not decided' if chosen is None else depths.labels[chosen]} |"
                )


if __name__ == "__main__":
    (ROOT / "docs" / "pages" / PAGE).write_text(page(), encoding="utf-8")
