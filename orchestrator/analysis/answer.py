"""The answers of a sweep: what to freeze, for each corpus, model and train size.

The terminal, the report and the dashboard show these objects, so that they cannot contradict each other. The error of
5 % holds for each answer, not for all answers of a sweep together: each is acted on by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.analysis.cells import dropout_sentence, freeze_name, has_frozen_dropout
from orchestrator.analysis.decide import decide
from orchestrator.analysis.decided import Decided, Outcome
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.own_training import own_training_lines
from orchestrator.analysis.rows import COMPLETED
from orchestrator.analysis.savings import FLOPS, savings
from orchestrator.analysis.trial_frame import MEMORY, TRAINING_COST
from orchestrator.analysis.wording import answer_words, excluded
from trials.freeze.stored_rule import ADAPTIVE
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.settings import EMBEDDINGS_ALONE, FreezeSpec
from trials.spec import TrialSpec

_NOT_PRINTED = ("decided_by", "n_layers")
_SETTING = (
    "freeze", "n_pairs", "n_run", "n_sentences", "n_documents", "loss", "median", "low", "high", "verdict",
    "difference", "worth_having", "saved", "saved_low", "saved_high", "collapsed", "runs", "loss_all", "why_none",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What to freeze at one train size, as `permafrost answer --json` prints it. Losses are in points.

    Attributes:
        task, corpus, model, train_size: Of the trials.
        setup: Settings in which answers of one corpus, model and train size differ; mostly empty.
        tolerance: Acceptable loss in points.
        cost, min_saving: What freezing should save, and the least share that is worth having.
        outcome: See `decided.Outcome`.
        decided: Whether a setting is recommended, or none will be.
        freeze: Label of the recommended setting; `none` if nothing should be frozen; None if not decided.
        about: Label of the setting that the figures are of: the recommended one, else the one that the sentence names
            as nearest to a decision; None before a pair of runs has ended.
        loss, low, high: Its mean loss and the ends of the interval; None where they are not known yet.
        saved: Share of the cost that it saves; None where it is not known.
        saved_flops: Share of the baseline's training FLOPs, which are counted exactly.
        saved_time: Share of its training time, where an interval excludes 0; else None.
        collapsed, runs, baseline_collapsed, baseline_runs: Collapsed runs of it and of its baseline, of those of which
            that is known.
        collapse_possible: Share of its runs that may collapse, 95 % bound.
        loss_all: Its mean loss over all runs, collapsed ones included.
        n_seeds, n_sentences, n_documents: What the loss rests on; no sentences where only scores were recorded, no
            documents where the corpus does not tell them.
        baseline_learned: Whether the baseline is shown to have learned the task.
        excluded: Settings, and pairs of runs, that are not considered, by reason.
        further_seeds: About how many more seeds would decide for the largest saving still open; 0 if nothing is open,
            None if no number is likely to.
        trade_offs: What each tolerance buys, the smallest first: `tolerance`, `freeze`, `saved`, `loss`.
        settings: All settings with their losses, intervals, verdicts, savings (also of FLOPs, time and memory) and
            collapses.
        headline: The answer in a few words, see `wording.AnswerWords`.
        lines: What to freeze, and what it loses and saves and how sure that is; or why not, and what to do.
        notes: All else that is known of it, one sentence each.
        sentence: All of that in one paragraph.
        frozen_dropout: Whether frozen layers ran with dropout while they were trained.
        yaml: The key `trial` of a sweep file that freezes so; empty if no setting is recommended.
        own_training: Lines of PyTorch that freeze so in training code of one's own; empty likewise, and for an
            architecture that is not registered.
        runner_up: Label of the next best setting, or of the one nearest to a decision; None if there is none.
        decided_by: What it was made from; not printed.
        n_layers: Encoder layers; not printed.
    """

    task: str
    corpus: str
    model: str
    train_size: int
    setup: str
    tolerance: float
    cost: str
    min_saving: float
    outcome: Outcome
    decided: bool
    freeze: str | None
    about: str | None
    loss: float | None
    low: float | None
    high: float | None
    saved: float | None
    saved_flops: float | None
    saved_time: float | None
    collapsed: int | None
    runs: int
    baseline_collapsed: int
    baseline_runs: int
    collapse_possible: float | None
    loss_all: float | None
    n_seeds: int
    n_sentences: int | None
    n_documents: int | None
    baseline_learned: bool
    excluded: dict[str, int]
    further_seeds: int | None
    trade_offs: tuple[dict[str, Any], ...]
    settings: tuple[dict[str, Any], ...]
    headline: str
    lines: tuple[str, str]
    notes: tuple[str, ...]
    sentence: str
    frozen_dropout: bool
    yaml: str
    own_training: str
    runner_up: str | None
    decided_by: Decided = field(repr=False, compare=False)
    n_layers: int = 0

    @property
    def heading(self) -> str:
        """What it is the answer for."""
        setup = f", {self.setup}" if self.setup else ""
        return f"{self.corpus} ({self.task}), {self.model}, train size {self.train_size:,}{setup}"

    def as_json(self) -> dict[str, Any]:
        """JSON values by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NOT_PRINTED}
        return values | {name: list(values[name]) for name in ("trade_offs", "settings", "lines", "notes")}


def answers(
    frame: pd.DataFrame,
    specs: Mapping[str, TrialSpec],
    plan: DecisionPlan | None = None,
    *,
    budget: Mapping[str, float] | None = None,
    value: str = "score",
) -> list[Answer]:
    """One answer for each corpus, model, train size and set-up with a baseline of its own.

    Those that are decided come first; among them, as among the rest, the largest size of each corpus and model.

    Args:
        frame: As of `trial_frame`.
        specs: A spec of each cell.
        plan: That of the sweep; None for the defaults.
        budget: As of `decide.decide`.

    Raises:
        ValueError: As of `decide.decide`.
    """
    found = [_answer(rows, specs, decide(rows, plan, budget=budget, value=value)) for rows in questions(frame)]
    return sorted(found, key=lambda answer: not answer.decided)


def questions(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The trials of each answer: those of one set-up and their baseline."""
    frozen = frame[frame["cell"] != frame["baseline"]]
    keys = ["task", "corpus", "model", "train_size", "baseline", "setup"]
    for key, rows in sorted(frozen.groupby(keys, sort=False), key=lambda group: (*group[0][:3], -group[0][3])):
        yield frame[frame.index.isin(rows.index) | (frame["cell"] == key[4])]


def beside(frame: pd.DataFrame, baseline: str, plan: DecisionPlan | None = None) -> Iterator[dict[str, Any]]:
    """What is no freeze of a baseline's encoder, such as an adapter, against that cell: rows as of `Answer.settings`.

    Each has an interval of its own, as no search chooses among them.

    Args:
        frame: As of `trial_frame`, of one objective group; `freeze` is what a row is called.
    """
    for cell in frame["cell"].unique():
        if cell != baseline:
            rows = frame[frame["cell"].isin((cell, baseline))].assign(baseline=baseline)
            table = decide(rows, plan).table
            yield from _with_savings(rows, [_setting(row) for row in table.to_dict("records")], [cell])


def across_models(
    frame: pd.DataFrame, specs: Mapping[str, TrialSpec], plan: DecisionPlan | None = None
) -> Answer | None:
    """One answer over several encoders: every depth of each against the best baseline; None before two have one.

    All losses are one family of intervals. The best baseline is picked by its mean on dev, so that losses against it
    are rather too large than too small.

    Args:
        frame: As of `trial_frame`, of one objective group.

    Raises:
        ValueError: As of `decide`.
    """
    own = frame[(frame["cell"] == frame["baseline"]) & (frame["state"] == COMPLETED)]
    means = own.groupby("cell")["score"].mean()
    if len(means) < 2:
        return None
    best = str(means.idxmax())
    names = {
        cell: f"{spec.model.name} {freeze_name(spec.freeze.label, spec.model.n_layers)}" for cell, spec in specs.items()
    }
    rows = frame.assign(baseline=best, freeze=frame["cell"].map(names), setup=f"against {names[best]}")
    return replace(_answer(rows, specs, decide(rows, plan)), model=" or ".join(frame["model"].unique()))


def _answer(rows: pd.DataFrame, specs: Mapping[str, TrialSpec], of: Decided) -> Answer:
    first, chosen, subject, outcome, second = rows.iloc[0], of.chosen, of.subject, of.outcome, of.runner_up
    table = of.table
    rests_on = table if chosen is None else table[table["cell"] == chosen["cell"]]
    sentences = rests_on["n_sentences"]
    spec = None if chosen is None else specs.get(chosen["cell"])
    recorded = subject is not None and subject["runs"] > 0
    words = answer_words(of)
    left_out = int((table["n_run"] - table["n_pairs"]).sum())
    with_dropout = any(has_frozen_dropout(specs[cell]) for cell in table["cell"] if cell in specs)
    if subject is not None:
        words = words._replace(notes=(*words.notes, dropout_sentence(with_dropout)))
    return Answer(
        task=str(first["task"]),
        corpus=str(first["corpus"]),
        model=str(first["model"]),
        train_size=int(first["train_size"]),
        setup=str(rows.loc[rows["cell"] != rows["baseline"], "setup"].iloc[0]),
        tolerance=of.plan.tolerance,
        cost=of.cost,
        min_saving=of.plan.min_saving,
        outcome=outcome,
        decided=outcome not in ("not decided", "not learned"),
        freeze=str(chosen["freeze"]) if chosen else "none" if outcome in ("freeze nothing", "not worth it") else None,
        about=None if subject is None else str(subject["freeze"]),
        loss=_known(subject, "loss"),
        low=_known(subject, "low"),
        high=_known(subject, "high"),
        saved=None if subject is None or pd.isna(subject["saved"]) else float(subject["saved"]),
        saved_flops=_saved(rows, FLOPS, subject),
        saved_time=_saved(rows, TRAINING_COST, subject),
        collapsed=int(subject["collapsed"]) if subject is not None and recorded else None,
        runs=int(subject["runs"]) if subject is not None else 0,
        baseline_collapsed=of.baseline.runs.collapsed,
        baseline_runs=of.baseline.runs.runs,
        collapse_possible=float(subject["possible"]) if subject is not None and recorded else None,
        loss_all=_known(subject, "loss_all"),
        n_seeds=int(rests_on["n_pairs"].max()),
        n_sentences=None if sentences.isna().all() else int(sentences.max()),
        n_documents=None if rests_on["n_documents"].isna().all() else int(rests_on["n_documents"].max()),
        baseline_learned=of.baseline.has_learned,
        excluded=excluded(of) | ({"pairs with a collapsed run": left_out} if left_out else {}),
        further_seeds=of.takes("further_seeds"),
        trade_offs=tuple(
            {
                "tolerance": trade_off.tolerance,
                "freeze": trade_off.freeze,
                "saved": trade_off.saved,
                "loss": trade_off.loss,
            }
            for trade_off in of.trade_offs
        ),
        settings=tuple(_with_savings(rows, list(map(_setting, table.to_dict("records"))), table["cell"].tolist())),
        headline=words.headline,
        lines=words.lines,
        notes=words.notes,
        sentence=words.sentence,
        frozen_dropout=with_dropout,
        yaml="" if spec is None else _yaml(spec),
        own_training="" if spec is None else own_training_lines(spec),
        runner_up=None if second is None else str(second["freeze"]),
        decided_by=of,
        n_layers=int(first.get("n_layers", 0)),
    )


def _setting(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table as JSON values."""
    return {name: _plain(row[name]) for name in _SETTING}


def _with_savings(rows: pd.DataFrame, settings: list[dict[str, Any]], cells: list[str]) -> Iterator[dict[str, Any]]:
    """The settings with the share of each cost that they save; None where that is not known or not shown."""
    names = {"saved_flops": FLOPS, "saved_time": TRAINING_COST, "saved_memory": MEMORY}
    costs = {name: cost for name, cost in names.items() if cost in rows.columns}
    table = savings(rows, list(costs.values())).set_index(["cost", "cell"]) if costs else None
    for setting, cell in zip(settings, cells, strict=True):
        saved = (
            {name: _told(table.loc[(cost, cell)], cost) for name, cost in costs.items()} if table is not None else {}
        )
        yield setting | {name: saved.get(name) for name in names}


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _known(row: Mapping[str, Any] | None, name: str) -> float | None:
    return None if row is None or not np.isfinite(row[name]) else float(row[name])


def _saved(rows: pd.DataFrame, cost: str, setting: Mapping[str, Any] | None) -> float | None:
    """The share that a setting saves of its baseline's; None where that is not known or not shown."""
    if setting is None or cost not in rows.columns:
        return None
    return _told(savings(rows, [cost]).set_index("cell").loc[setting["cell"]], cost)


def _told(row: pd.Series, cost: str) -> float | None:
    """What is saved, if it is counted, or measured and shown to differ from none."""
    if pd.isna(row["saved"]) or (cost != FLOPS and not (row["low"] > 0 or row["high"] < 0)):
        return None
    return float(row["saved"])


def freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    """The key `trial` of a sweep file that freezes so."""
    return f"trial:\n  freeze: {_freeze_yaml(freeze, n_layers)}\n"


def _freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    if freeze.rule is not None:
        rule = json.dumps(freeze.rule.model_dump(mode="json"))
        embeddings = ", embeddings: true" if freeze.embeddings else ""
        return f"{{strategy: {ADAPTIVE}, rule: {rule}{embeddings}}}"
    if freeze.embeddings and not freeze.layers:
        return EMBEDDINGS_ALONE
    strategy = freeze.strategy if freeze.strategy in FREEZE_STRATEGIES else LAYERS  # which any reader can freeze
    depth = f", layers: {list(freeze.layers)}" if strategy == LAYERS else f", depth: {freeze.depth}"
    if strategy != LAYERS and len(possible_depths(strategy, n_layers)) == 1:
        depth = ""
    embeddings = ", embeddings: true" if freeze.embeddings else ""
    return strategy if not depth + embeddings else f"{{strategy: {strategy}{depth}{embeddings}}}"


def _yaml(spec: TrialSpec) -> str:
    dropout = "" if spec.freeze.is_baseline else f"  frozen_dropout: {str(spec.frozen_dropout).lower()}\n"
    return freeze_yaml(spec.freeze, spec.model.n_layers) + dropout
