"""The answers of a sweep: what to freeze, for each corpus, model and train size.

The terminal, the report and the dashboard show these objects, so that they cannot contradict each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.analysis.cells import dropout_sentence, has_frozen_dropout
from orchestrator.analysis.choose import Recommendation, recommend
from orchestrator.analysis.rows import COMPLETED, numbers
from orchestrator.analysis.savings import savings
from trials.freeze.rules import ADAPTIVE
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.settings import EMBEDDINGS_ALONE, FreezeSpec
from trials.spec import TrialSpec

ERROR = 0.05  # chance of recommending a setting that truly loses more than the tolerance
_FLOPS, _TIME = "training_flops", "training_cost_s"
POINTS = 100.0  # of a score of 1
_NOT_PRINTED = ("recommendation", "n_layers")


@dataclass(frozen=True)
class Answer:
    """What to freeze at one train size, as `permafrost answer --json` prints it.

    Attributes:
        task, corpus, model, train_size: Of the trials.
        setup: Settings in which answers of one corpus, model and train size differ; mostly empty.
        tolerance: Acceptable loss in points.
        decided: Whether a setting is recommended, or all are shown to lose more than the tolerance.
        freeze: Label of the recommended setting; `none` if all lose too much; None if not decided.
        about: Label of the setting that the figures are of: the recommended one, else the one that the sentence names
            as nearest to a decision; None before a pair of runs has ended.
        loss, low, high: Its mean loss and the ends that decide, in points; None where they are not known yet.
        saved_flops, saved_time: Shares of the baseline's training FLOPs and training time that it saves; None where
            they are not known.
        collapsed: Runs of it that collapsed; None where that was not recorded.
        n_seeds, n_sentences: What the loss rests on; no sentences where only scores were recorded.
        further_seeds: About how many more seeds would decide for the largest saving still open; 0 if nothing is open,
            None if no number is likely to.
        sentence: The answer in words.
        frozen_dropout: Whether frozen layers ran with dropout while they were trained.
        yaml: The key `trial` of a sweep file that freezes so; empty if no setting is recommended.
        runner_up: Label of the next best setting, or of the one nearest to a decision; None if there is none.
        recommendation: What it was made from; not printed.
        n_layers: Encoder layers; not printed.
    """

    task: str
    corpus: str
    model: str
    train_size: int
    setup: str
    tolerance: float
    decided: bool
    freeze: str | None
    about: str | None
    loss: float | None
    low: float | None
    high: float | None
    saved_flops: float | None
    saved_time: float | None
    collapsed: int | None
    n_seeds: int
    n_sentences: int | None
    further_seeds: int | None
    sentence: str
    frozen_dropout: bool
    yaml: str
    runner_up: str | None
    recommendation: Recommendation = field(repr=False, compare=False)
    n_layers: int = 0

    @property
    def heading(self) -> str:
        """What it is the answer for."""
        setup = f", {self.setup}" if self.setup else ""
        return f"{self.corpus} ({self.task}), {self.model}, train size {self.train_size:,}{setup}"

    def as_json(self) -> dict[str, Any]:
        """JSON values by name."""
        return asdict(self, dict_factory=lambda items: {k: v for k, v in items if k not in _NOT_PRINTED})


def answers(
    frame: pd.DataFrame,
    specs: Mapping[str, TrialSpec],
    tolerance: float = 1.0,
    *,
    saving: str | None = None,
    budget: Mapping[str, float] | None = None,
    value: str = "score",
    most_seeds: int | None = None,
) -> list[Answer]:
    """One answer for each corpus, model, train size and set-up with a baseline of its own, the largest size first.

    Args:
        frame: As of `trial_frame`.
        specs: A spec of each cell.
        tolerance: Acceptable loss in points.
        saving: The cost to save; None for that of `default_saving`.
        budget: As of `choose.recommend`.
        most_seeds: As of `choose.recommend`.

    Raises:
        ValueError: As of `choose.recommend`.
    """
    found = []
    for rows in _questions(frame):
        cost = saving or default_saving(rows)
        options: dict[str, Any] = {"budget": budget, "error": ERROR, "value": value, "most_seeds": most_seeds}
        found.append(_answer(rows, specs, tolerance, recommend(rows, tolerance / POINTS, cost, **options)))
    return found


def _questions(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The trials of each answer: those of one set-up and their baseline."""
    frozen = frame[frame["cell"] != frame["baseline"]]
    keys = ["task", "corpus", "model", "train_size", "baseline", "setup"]
    for key, rows in sorted(frozen.groupby(keys, sort=False), key=lambda group: (*group[0][:3], -group[0][3])):
        yield frame[frame.index.isin(rows.index) | (frame["cell"] == key[4])]


def default_saving(frame: pd.DataFrame) -> str:
    """Training FLOPs where all completed trials have them, else trainable parameters.

    Times are not chosen for anybody: they vary, and in stores without FLOPs the trial that happened to compute the
    frozen states paid for all.
    """
    done = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
    known = _FLOPS in done.columns and len(done) > 0 and bool(np.isfinite(numbers(done, _FLOPS)).all())
    return "training_flops" if known else "trainable_params"


def _answer(rows: pd.DataFrame, specs: Mapping[str, TrialSpec], tolerance: float, found: Recommendation) -> Answer:
    first, subject, labels = rows.iloc[0], found.subject, rows.drop_duplicates("cell").set_index("cell")["freeze"]
    frozen = rows[rows["cell"] != rows["baseline"]]
    chosen = found.chosen
    runs = int(found.candidates["n_pairs"].max()) if chosen is None else int(chosen["n_pairs"])
    rests_on = found.candidates if found.cell is None else found.candidates[found.candidates["cell"] == found.cell]
    sentences = rests_on["n_sentences"]
    spec = None if found.cell is None else specs.get(found.cell)
    label = None if found.cell is None else str(labels[found.cell])
    with_dropout = any(has_frozen_dropout(specs[cell]) for cell in frozen["cell"].unique() if cell in specs)
    return Answer(
        task=str(first["task"]),
        corpus=str(first["corpus"]),
        model=str(first["model"]),
        train_size=int(first["train_size"]),
        setup=str(frozen["setup"].iloc[0]),
        tolerance=tolerance,
        decided=found.outcome != "not decided",
        freeze="none" if found.outcome == "freeze nothing" else label,
        about=None if subject is None else str(subject["freeze"]),
        loss=_points(subject, "loss"),
        low=_points(subject, "low_decides"),
        high=_points(subject, "high_decides"),
        saved_flops=_saved(rows, _FLOPS, subject),
        saved_time=_saved(rows, _TIME, subject),
        collapsed=None if subject is None or "not recorded" in subject["collapses"] else int(subject["collapsed"]),
        n_seeds=runs,
        n_sentences=None if sentences.isna().all() else int(sentences.max()),
        further_seeds=found.further_seeds,
        sentence=found.sentence + ("" if subject is None else f" {dropout_sentence(with_dropout)}"),
        frozen_dropout=with_dropout,
        yaml="" if spec is None else _yaml(spec),
        runner_up=None if found.runner_up is None else str(labels[found.runner_up]),
        recommendation=found,
        n_layers=int(first.get("n_layers", 0)),
    )


def _points(row: Mapping[str, Any] | None, name: str) -> float | None:
    return None if row is None or not np.isfinite(row[name]) else POINTS * float(row[name])


def _saved(rows: pd.DataFrame, cost: str, setting: Mapping[str, Any] | None) -> float | None:
    """The share that a setting saves of its baseline's; None where it is not known."""
    if setting is None or cost not in rows.columns:
        return None
    saved = savings(rows, [cost]).set_index("cell")["saved"][setting["cell"]]
    return None if pd.isna(saved) else float(saved)


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
