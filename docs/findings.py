"""The page of findings, from the store of FreezeBench: every figure on it is one that `permafrost answer` prints.

python -m docs.findings writes the page, which is part of the repository; its figure is drawn by the command that the
page names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from orchestrator.analysis.answer import Answer, questions, saved_shares, setting_rows, with_shares
from orchestrator.analysis.decide import decide
from orchestrator.analysis.freeze_names import strip_and_word
from orchestrator.api import answer, open_store
from orchestrator.config.quantities import percent
from orchestrator.search.depth_search import Depths, DepthSearch
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec
from tests.orchestrator.search.replay import recorded_trials, simulate
from trials.spec import FreezeSpec, TrialSpec
from trials.tasks import TASKS

ROOT = Path(__file__).parents[1]
STORE = "configs/freezebench/store"
PAGE = "explanation/findings.md"
# Sweeps over the depth; where two ask the same, the later one answers.
GRIDS = ("freezebench-core", "freezebench-small", "freezebench-seeds", "freezebench-l3", "freezebench-mpnet")
HALVES = "freezebench-layers"
HALF = 3  # layers that every freeze of `HALVES` holds
TOLERANCES = (1.0, 3.0, 10.0)  # points
FEW = 200  # examples
Row = dict[str, Any]  # of a setting, as in `Answer.settings`

_TOP = """# Findings: what freezing costs on encoders that people use

## What to do

{what_to_do}

## What it rests on

[FreezeBench](../../../configs/freezebench/README.md) trains pretrained encoders on five corpora, with the same recipe,
subsets and seeds for every freeze. {n_trials:,} of its trials have run; this page is written from them by
`python -m docs.findings`, and grows with them. `permafrost demo` opens the same trials.

A loss is that of the baseline with the same seed minus the frozen model's, in points of the score on dev, with the
interval that decides ([how](intervals.md)); it is the trials' mean, and a minus says that freezing gained. Savings are
training FLOPs, which are exact. `permafrost answer SWEEP --store {store}` prints every answer in words.

![Loss against training FLOPs saved, a panel a corpus](../pictures/findings.svg)

Six layers, 500 examples; drawn by
`permafrost export figure answer-losses --store {store} --url '?sweep=freezebench-core' -o findings.svg`.

## In short

{short}
"""
_DEPTH = """## Loss by depth, task, train size and encoder

Embeddings are frozen, too, with every depth. Seeds are those in which neither the baseline nor the freeze
collapsed, of those that the sweep planned before its first: an interval is shortest at that number
([why](intervals.md)). Where the baseline itself is hardly better than a constant answer, as on CoLA, there is little
to lose.
"""
_WITHIN = """## What a tolerance buys

The deepest freeze that is shown to lose at most so many points, and the training FLOPs that it saves; *none* where the
least freeze worth having is shown to lose more, *open* where the seeds do not tell; empty where the baseline is hardly
better than a constant answer, or by no more than the tolerance.

| corpus | encoder | train size | 1 point | 3 points | 10 points |
|---|---|---|---|---|---|
"""
_HALVES = """## Which half of the layers

Three of six layers, embeddings trained. Losses against the unfrozen baseline, then against freezing the first three
with the same seeds (below 0: loses less than the first three).

| corpus | train size | frozen | loss (interval) | against the first three (interval) | |
|---|---|---|---|---|---|
"""
_SEARCHES = """## What `choose_depth` would have spent

The same trials replayed (`tests/orchestrator/search/replay.py`): the search asks for one after the other, none trains,
and it stops once the deepest freeze within the tolerance is decided or cannot be with the seeds that there are.

| corpus | encoder | train size | trials of the grid: 1 point | 3 points | 10 points |
|---|---|---|---|---|---|
"""
_PAPERS = """## Beside the papers

| the paper | here |
|---|---|
"""
_POST = "[Freezing BERT](https://raphaelb.net/posts/freezing-bert)"
_LEE = "[Lee, Tang and Lin 2019](https://arxiv.org/abs/1911.03090)"
_END = """## What cannot be told yet

{undecided}- Times: the trials ran beside other work on two cores, so only FLOPs are reported.
- An encoder of 12 layers ran on SST-2 only (`mpnet.yaml`); more than 500 examples are not planned.
- The recipe was chosen before any run and is the same for every freeze; a learning rate tuned for each may lose less.
"""


def page() -> str:
    """The page in Markdown. Raises StoreError: there is no store."""
    store = open_store(str(ROOT / STORE))
    planned = {plan.name for plan in store.sweeps()}
    by_question = {
        (each.model, each.train_size, each.corpus): each
        for sweep in GRIDS
        if sweep in planned
        for each in answer(str(ROOT / STORE), sweep)
        if _has_interval(each)
    }
    answers = [by_question[key] for key in sorted(by_question, key=lambda key: (key[0], -key[1], key[2]))]
    halves = list(_halves(store)) if HALVES in planned else []
    searches = list(_searches(store))
    missing = [f"- {sweep}: no trial of it has run.\n" for sweep in (*GRIDS, HALVES) if sweep not in planned]
    return "\n".join(
        [
            _TOP.format(
                n_trials=len(store.completed_ids()),
                store=STORE,
                what_to_do="\n".join(_what_to_do(answers)),
                short="\n".join(_in_short(answers, halves, searches)),
            ),
            _DEPTH,
            *(_by_depth(list(group)) for _, group in groupby(answers, key=lambda each: (each.model, each.train_size))),
            _WITHIN + "\n".join(map(_within, answers)) + "\n",
            _HALVES + "\n".join(_half_row(*half) for half in halves) + "\n",
            _SEARCHES + "\n".join(_search_row(*search) for search in searches) + "\n",
            _PAPERS + "\n".join(_beside_papers(answers, halves)) + "\n",
            _END.format(undecided="".join(missing)),
        ]
    )


def _what_to_do(answers: list[Answer]) -> Iterator[str]:
    """What these trials advise: each sentence with the counts that it rests on."""
    answers = [each for each in answers if each.baseline_learned]
    middle = TOLERANCES[1]
    bought = [found for each in answers if isinstance(found := bought_within(each, middle), dict)]
    asked = sum(bought_within(each, middle) != "" for each in answers)
    yield (
        f"1. **Say first what you can lose.** Within {TOLERANCES[0]:g} point a freeze worth having is shown in "
        f"{_n_bought(answers, TOLERANCES[0])} of {len(answers)} cases here, within {middle:g} points in {len(bought)} "
        f"of {asked}: what a few hundred examples can show, not what holds for more."
    )
    shares = [_share(each, found) for each in answers if isinstance(found := bought_within(each, middle), dict)]
    if shares:
        yield (
            f"2. **Then try a third of the layers, with the embeddings**: within {middle:g} points the deepest freeze "
            f"that is shown holds {percent(min(shares))} to {percent(max(shares))} of the layers (median "
            f"{percent(median(shares))})."
        )
    every = [row for _, row in _settings(answers) if row["freeze"] == "all+E"]
    beyond = sum(row["low"] > TOLERANCES[0] for row in every)
    yield (
        f"3. **Do not freeze the whole encoder** unless you have measured it: it is shown to cost more than "
        f"{TOLERANCES[0]:g} point in {beyond} of {len(every)} cases."
    )
    frozen = _settings(answers)
    yield (
        "4. **Freeze to save, not to score higher**: that freezing helps is shown in "
        f"{_gains(row for _, row in frozen)} of {len(frozen)} comparisons, with few examples as with many."
    )
    yield (
        "5. **Ask it of your own data**: the same freeze costs nothing on one corpus and much on another, as the "
        "tables below show. `permafrost choose my-data` does, and stops when it knows."
    )


def _n_bought(answers: Iterable[Answer], tolerance: float) -> int:
    return sum(isinstance(bought_within(each, tolerance), dict) for each in answers)


def _share(each: Answer, row: Row) -> float:
    """How much of the layers a setting freezes."""
    return _freeze_of(each, row).depth / each.n_layers


def _freeze_of(each: Answer, row: Row) -> FreezeSpec:
    return next(freeze for freeze in each.freezes if freeze.label == row["freeze"])


def _has_interval(each: Answer) -> bool:
    return any(row["low"] is not None for row in each.settings)


def _settings(answers: Iterable[Answer]) -> list[tuple[Answer, Row]]:
    return [(each, row) for each in answers for row in each.settings if row["low"] is not None]


def _in_short(answers: list[Answer], halves: list[Half], searches: list[Search]) -> Iterator[str]:
    """What the tables say together, counted where the baseline has learned its task."""
    answers = [each for each in answers if each.baseline_learned]
    embeddings = [row for _, row in _settings(answers) if row["freeze"] == "embeddings"]
    yield (
        f"- **Freezing the embeddings alone** is shown to lose something in {_losses(embeddings)} of {len(embeddings)} "
        f"cases, and to lose at most 3 points in {sum(row['high'] <= 3 for row in embeddings)}. It saves about 1 % of "
        "the FLOPs."
    )
    every = [row for _, row in _settings(answers) if row["freeze"] == "all+E"]
    losses = [row["loss"] for row in every]
    yield (
        f"- **Freezing all layers** loses {min(losses):.0f} to {max(losses):.0f} points; more than 1 point "
        f"is shown in {sum(row['low'] > 1 for row in every)} of {len(every)} cases."
    )
    for tolerance in TOLERANCES:
        bought = [found for each in answers if (found := bought_within(each, tolerance))]
        savings = sorted(row["saved_flops"] for row in bought if isinstance(row, dict))
        saved = f"; they save {percent(savings[0])} or more of the FLOPs" if savings else ""
        points = f"{tolerance:g} point{'s' * (tolerance != 1)}"
        yield (
            f"- **Within {points}** a freeze worth having is shown in {len(savings)} of {len(bought)} cases{saved}. "
            f"That the least one costs more is shown in {bought.count('none')}."
        )
    frozen = _settings(answers)
    gains = _gains(row for _, row in frozen)
    yield f"- **That freezing helps** is shown in {gains} of {len(frozen)} comparisons, at any depth and train size."
    more, less, pairs = _sizes(answers)
    yield (
        f"- **Fewer examples make freezing dearer**: of {pairs} freezes at the least and the most examples, {more} are "
        f"shown to lose more with the least and {less} with the most (intervals that do not overlap)."
    )
    alternating = [against for *_, row, against in halves if row["freeze"].startswith("alternating") and against]
    yield (
        f"- **Every other layer against the first three**: shown to lose less in {_gains(alternating)}, more in "
        f"{_losses(alternating)} of {len(alternating)} cases."
    )
    learned = {(each.corpus, each.model, each.train_size) for each in answers}
    judged = [
        (of, results) for spec, of, results in searches if (spec.data.name, spec.model.name, spec.train_size) in learned
    ]
    spent = [spent / of for of, results in judged for spent, _ in results]
    if spent:
        chosen = sum(chosen is not None for _, results in judged for _, chosen in results)
        yield (
            f"- **`choose_depth`** would have spent {percent(min(spent))} to {percent(max(spent))} of a grid's trials "
            f"(median {percent(median(spent))}), and chosen a depth in {chosen} of {len(spent)} cases."
        )


def _sizes(answers: list[Answer]) -> tuple[int, int, int]:
    """Freezes whose interval at the smallest train size is above that at the largest, below it, and all of them."""
    rows: dict[tuple[str, str, str], dict[int, Row]] = {}
    for each, row in _settings(answers):
        rows.setdefault((each.model, each.corpus, row["freeze"]), {})[each.train_size] = row
    pairs = [(sizes[min(sizes)], sizes[max(sizes)]) for sizes in rows.values() if len(sizes) > 1]
    more = sum(few["low"] > many["high"] for few, many in pairs)
    return more, sum(few["high"] < many["low"] for few, many in pairs), len(pairs)


def _by_depth(answers: list[Answer]) -> str:
    """A row for each corpus of one encoder and train size: the loss of each freeze, with the interval that decides."""
    first = answers[0]
    freezes = {freeze.label: freeze for each in answers for freeze in each.freezes}
    strips = [strip_and_word(freeze, first.n_layers) for freeze in freezes.values()]
    lines = [
        f"### {first.model} ({first.n_layers} layers), {first.train_size:,} examples\n",
        f"| corpus | score | baseline | seeds | {' | '.join(strips)} |",
        f"|---|---|---|---|{'---|' * len(strips)}",
    ]
    for each in answers:
        rows = {row["freeze"]: row for row in each.settings}
        losses = " | ".join(map(_loss, map(rows.get, freezes)))
        baseline = f"{each.decided_by.baseline.score:.1f}"
        pairs = [row["n_pairs"] for row in rows.values()]
        seeds = f"{min(pairs)}" if min(pairs) == max(pairs) else f"{min(pairs)} to {max(pairs)}"
        seeds += f" of {each.decided_by.looks.planned}"
        lines.append(f"| {each.corpus} | {TASKS[each.task].score} | {baseline} | {seeds} | {losses} |")
    return "\n".join([*lines, ""])


def _loss(row: Row | None) -> str:
    if row is None or row["loss"] is None:
        return ""
    return f"{row['loss']:.2f}" + ("" if row["low"] is None else f" ({row['low']:.2f} to {row['high']:.2f})")


def bought_within(each: Answer, tolerance: float) -> Row | str:
    """The setting that saves the most within a tolerance; `none` where none can be within it; else `open`. Empty where
    a constant answer is within it, too.
    """
    if each.decided_by.baseline.is_vacuous(tolerance):
        return ""
    worth_having = [row for row in each.settings if row["worth_having"] and row["low"] is not None]
    within = [row for row in worth_having if row["high"] <= tolerance]
    if within:
        return max(within, key=lambda row: row["saved_flops"])
    least = min(worth_having, key=lambda row: row["saved_flops"], default=None)
    return "none" if least is not None and least["low"] > tolerance else "open"


def _within(each: Answer) -> str:
    cells = [
        bought
        if isinstance(bought, str)
        else f"{strip_and_word(_freeze_of(each, bought), each.n_layers)}, saves {percent(bought['saved_flops'])}"
        for bought in (bought_within(each, tolerance) for tolerance in TOLERANCES)
    ]
    return f"| {each.corpus} | {each.model} | {each.train_size:,} | {' | '.join(cells)} |"


Half = tuple[str, int, str, Row, Row | None]  # corpus, train size, strip, loss, loss against the first half


def _halves(store: ResultStore) -> Iterator[Half]:
    """Each half of the layers, with its loss and, but for the first, its loss with the first half as the baseline."""
    shown = {(each.corpus, each.train_size): each for each in answer(str(ROOT / STORE), HALVES)}
    for plan in (plan for plan in store.sweeps() if plan.name == HALVES):
        for rows in questions(store.evidence(_specs(plan)).frame):
            corpus, size = rows["corpus"].iloc[0], int(rows["train_size"].iloc[0])
            first = rows[(rows["strategy"] == "first_k") & (rows["depth"] == HALF)]
            against = (
                {row["freeze"]: row for row in _settings_against(rows, first["cell"].iloc[0])} if len(first) else {}
            )
            each = shown[corpus, size]
            for row in each.settings if _has_interval(each) else ():
                other = against.get(row["freeze"])
                has_interval = other is not None and other["low"] is not None
                strip = strip_and_word(_freeze_of(each, row), each.n_layers)
                yield corpus, size, strip, row, other if has_interval else None


def _settings_against(frame: pd.DataFrame, baseline: str) -> Iterator[Row]:
    """Each other cell of one objective group against a cell, with an interval of its own: no search chooses it."""
    for cell in frame["cell"].unique():
        if cell != baseline:
            rows = frame[frame["cell"].isin((cell, baseline))].assign(baseline=baseline)
            yield from setting_rows(with_shares(decide(rows), saved_shares(rows)))


def _half_row(corpus: str, size: int, strip: str, row: Row, against: Row | None) -> str:
    verdict = "" if against is None else against["difference"]
    return f"| {corpus} | {size:,} | {strip} | {_loss(row)} | {_loss(against)} | {verdict} |"


Search = tuple[TrialSpec, int, list[tuple[int, str | None]]]  # of the grid, its trials; spent and chosen by tolerance


def _searches(store: ResultStore) -> Iterator[Search]:
    """The searches of each grid of nested freezes whose trials have all run."""
    recorded = recorded_trials(store)
    grids: dict[str, dict[str, TrialSpec]] = {}
    for plan in store.sweeps():
        for spec in _specs(plan) if plan.name in GRIDS else ():
            grids.setdefault(spec.baseline_id, {})[spec.trial_id] = spec
    for grid in grids.values():
        if grid.keys() <= recorded.keys():
            depths = Depths.from_trials(list(grid.values()))
            results = list[tuple[int, str | None]]()
            for tolerance in TOLERANCES:
                goal = GoalSpec(choose_depth=DepthGoalSpec(tolerance=tolerance))
                search = DepthSearch(goal, depths, StoredTrials(ResultStore(Path("nothing"))))
                spent = simulate(search, recorded).trials
                chosen = search.decision().choice
                n_layers = search.decision().n_layers or 0
                label = None if chosen is None else strip_and_word(chosen["freeze_spec"], n_layers)
                results.append((spent, label))
            yield next(iter(grid.values())), len(grid), results


def _search_row(spec: TrialSpec, of: int, results: list[tuple[int, str | None]]) -> str:
    cells = [f"{spent} of {of}: {chosen or 'not decided'}" for spent, chosen in results]
    return f"| {spec.data.name} | {spec.model.name} | {spec.train_size:,} | {' | '.join(cells)} |"


def _beside_papers(answers: list[Answer], halves: list[Half]) -> Iterator[str]:
    """What studies found that can be set beside these trials; theirs are of other encoders, mostly of more examples."""
    shown = _settings(answers)
    few = [row for each, row in shown if each.task in ("sst2", "cola") and each.train_size <= FEW]
    yield (
        f"| {_POST}, RoBERTa-base on SST-2 and CoLA, 50 to 1,000 examples: up to 8 of 12 layers no clear difference, "
        f"much variance between seeds | with at most {FEW} examples a gain is shown in {_gains(few)}, a loss in "
        f"{_losses(few)} of {len(few)} comparisons; the others are not told apart here either |"
    )
    scores = [
        each.decided_by.baseline.score - row["loss"]
        for each, row in shown
        if row["freeze"] == "all+E" and each.task == "sst2"
    ]
    yield (
        f"| {_POST}: all layers frozen are no better than the majority class, 50.9 % on SST-2 | all layers frozen: "
        f"{min(scores):.0f} to {max(scores):.0f} % on SST-2; that these encoders were trained to embed sentences may "
        "be why |"
    )
    alternating = [against for *_, row, against in halves if row["freeze"].startswith("alternating") and against]
    yield (
        "| Emekaeze, multilingual DistilBERT, EWT and Naija, whole train splits, one seed: every other layer loses 0 "
        "to 0.2 points, the first four 0.3 to 0.5 | a difference between every other and the first three is shown in "
        f"{_gains(alternating) + _losses(alternating)} of {len(alternating)} cases |"
    )
    first = [row for *_, row, _ in halves if row["freeze"] == f"first {HALF}" and row["low"] is not None]
    yield (
        "| Brown, DistilBERT on English POS: the first three of six layers frozen about as good as the baseline (0.02 "
        f"points apart), no benefit | a loss is shown in {_losses(first)} of {len(first)} cases, "
        f"a gain in {_gains(first)} |"
    )
    kept = [
        1 - row["loss"] / each.decided_by.baseline.score
        for each, row in shown
        if row["freeze"] == "first 4+E" and each.n_layers == 6 and each.task != "cola"
    ]
    yield (
        f"| {_LEE}: tuning the last quarter of the layers keeps about 90 % of the quality | tuning the last third "
        f"keeps {percent(min(kept))} to {percent(max(kept))} of the score, "
        f"median {percent(median(kept))} (CoLA left out) |"
    )


def _gains(rows: Iterable[Row]) -> int:
    return sum(row["high"] < 0 for row in rows)


def _losses(rows: Iterable[Row]) -> int:
    return sum(row["low"] > 0 for row in rows)


def _specs(plan: SweepPlan) -> list[TrialSpec]:
    return [TrialSpec.model_validate(content) for _, content in plan.trials]


if __name__ == "__main__":
    (ROOT / "docs" / "pages" / PAGE).write_text(page(), encoding="utf-8")
