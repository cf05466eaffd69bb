"""The answers of a sweep: what to freeze, for each corpus, model and train size.

An answer is what was decided and where. Its figures are read off the one table (`Decision.table`), losses in points and
savings as shares of the baseline's cost; its words are those of `wording.answer_words`. The terminal, JSON, the report
and the pages show these objects, so that they cannot contradict each other. The error of 5 % holds for each answer,
not for all answers of a sweep together: each is acted on by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.analysis.decide import Decision, Outcome, decide
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.savings import FLOPS, savings
from orchestrator.analysis.wording import AnswerWords, answer_words, excluded_counts
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.models.family import MODEL_FAMILIES
from trials.record import MEMORY, TRAINING_COST
from trials.spec import BASELINE, EMBEDDINGS_ALONE, FreezeSpec, TrialSpec

_EACH_SAVING = {"saved_flops": FLOPS, "saved_time": TRAINING_COST, "saved_memory": MEMORY}
_SETTING = (
    "freeze", "n_pairs", "n_run", "n_sentences", "n_documents", "loss", "median", "low", "high", "verdict", "chance",
    "difference", "worth_having", "saved", "saved_low", "saved_high", "collapsed", "runs", "loss_all", "why_none",
    *_EACH_SAVING,
)  # fmt: skip
_PRINTED = (
    "task", "corpus", "model", "train_size", "setup", "tolerance", "cost", "min_saving", "outcome", "decided", "freeze",
    "about", "loss", "low", "high", "saved", "saved_flops", "saved_time", "collapsed", "runs", "baseline_collapsed",
    "baseline_runs", "collapse_possible", "loss_all", "n_seeds", "n_sentences", "n_documents", "baseline_learned",
    "excluded", "further_seeds", "trade_offs", "settings", "headline", "lines", "notes", "sentence", "frozen_dropout",
    "yaml", "own_training", "runner_up",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to what to freeze for one corpus, model and train size.

    `as_json` holds its values by name, as `permafrost answer --json` prints them. Losses are in points.

    Attributes:
        decided_by: The decision that the answer states.
        task, corpus, model, train_size: Those of the trials.
        setup: Settings in which answers of one corpus, model and train size differ; usually empty.
        specs: One spec of each setting, by cell, as far as they are known.
    """

    decided_by: Decision = field(repr=False)
    task: str
    corpus: str
    model: str
    train_size: int
    setup: str
    specs: Mapping[str, TrialSpec] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """JSON values by name."""
        values = {name: getattr(self, name) for name in _PRINTED}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def heading(self) -> str:
        """The corpus, task, model, train size and set-up that are asked about."""
        setup = f", {self.setup}" if self.setup else ""
        return f"{self.corpus} ({self.task}), {self.model}, train size {self.train_size:,}{setup}"

    @property
    def n_layers(self) -> int:
        """Encoder layers; 0 if unknown. Not in `as_json`."""
        return self.decided_by.n_layers or 0

    @property
    def tolerance(self) -> float:
        """Acceptable loss in points."""
        return self.decided_by.plan.tolerance

    @property
    def cost(self) -> str:
        """What freezing should save."""
        return self.decided_by.cost

    @property
    def min_saving(self) -> float:
        """The least share of the cost that is worth having."""
        return self.decided_by.plan.min_saving

    @property
    def outcome(self) -> Outcome:
        """See `decide.Outcome`."""
        return self.decided_by.outcome

    @property
    def decided(self) -> bool:
        """Whether a setting is recommended, or none will be."""
        return self.decided_by.is_decided

    @property
    def freeze(self) -> str | None:
        """Label of the recommended setting; `none` if nothing should be frozen; None if not decided."""
        return None if self.freeze_spec is None else self.freeze_spec.label

    @property
    def freeze_spec(self) -> FreezeSpec | None:
        """What should be frozen; None if not decided. Not in `as_json`."""
        if (chosen := self.decided_by.choice) is not None:
            return _freeze_of(chosen)
        return BASELINE if self.decided else None

    @property
    def about(self) -> str | None:
        """Label of the setting that the figures describe: the recommended one, or else the one that the sentence calls
        nearest to a decision; None before a pair of runs has ended.
        """
        subject = self.decided_by.subject
        return None if subject is None else str(subject["freeze"])

    @property
    def loss(self) -> float | None:
        """Mean loss of the setting that `about` names, in points. Here and below, None means unknown."""
        return self._figure("loss")

    @property
    def low(self) -> float | None:
        """Lower end of the interval of the loss."""
        return self._figure("low")

    @property
    def high(self) -> float | None:
        """Upper end of the interval of the loss."""
        return self._figure("high")

    @property
    def loss_all(self) -> float | None:
        """Mean loss over all runs, collapsed ones included."""
        return self._figure("loss_all")

    @property
    def saved(self) -> float | None:
        """Share of the cost that the setting saves."""
        return self._figure("saved")

    @property
    def saved_flops(self) -> float | None:
        """Share of the baseline's training FLOPs, which are counted exactly."""
        return self._figure("saved_flops")

    @property
    def saved_time(self) -> float | None:
        """Share of the baseline's training time, where an interval excludes 0; else None."""
        return self._figure("saved_time")

    def _figure(self, name: str) -> float | None:
        subject = self.decided_by.subject
        return None if subject is None or not np.isfinite(subject[name]) else float(subject[name])

    @property
    def collapsed(self) -> int | None:
        """Collapsed runs of the setting, of `runs`; None if it was not recorded of any."""
        subject = self.decided_by.subject
        return int(subject["collapsed"]) if subject is not None and self.runs else None

    @property
    def runs(self) -> int:
        """Runs of the setting of which it is known whether they collapsed."""
        subject = self.decided_by.subject
        return int(subject["runs"]) if subject is not None else 0

    @property
    def baseline_collapsed(self) -> int:
        """Runs of the baseline that collapsed."""
        return self.decided_by.baseline.runs.collapsed

    @property
    def baseline_runs(self) -> int:
        """Runs of the baseline that ended and are evidence."""
        return self.decided_by.baseline.runs.runs

    @property
    def collapse_possible(self) -> float | None:
        """Share of the setting's runs that may collapse, 95 % bound."""
        return self._figure("possible") if self.runs else None

    @property
    def n_seeds(self) -> int:
        """Pairs of runs that the loss rests on."""
        return int(self._basis_rows["n_pairs"].max())

    @property
    def n_sentences(self) -> int | None:
        """Dev sentences that the loss rests on; None where only scores were recorded."""
        return self._largest("n_sentences")

    @property
    def n_documents(self) -> int | None:
        """Documents that these sentences are from; None where the corpus does not tell them."""
        return self._largest("n_documents")

    @property
    def _basis_rows(self) -> pd.DataFrame:
        """The row of the recommended setting, or all."""
        table, chosen = self.decided_by.table, self.decided_by.choice
        return table if chosen is None else table[table["cell"] == chosen["cell"]]

    def _largest(self, name: str) -> int | None:
        counts = self._basis_rows[name]
        return None if counts.isna().all() else int(counts.max())

    @property
    def baseline_learned(self) -> bool:
        """Whether the baseline is shown to have learned the task."""
        return self.decided_by.baseline.has_learned

    @property
    def excluded(self) -> dict[str, int]:
        """Settings, and pairs of runs, that are not considered, by reason."""
        table = self.decided_by.table
        left_out = int((table["n_run"] - table["n_pairs"]).sum())
        return excluded_counts(self.decided_by) | ({"pairs with a collapsed run": left_out} if left_out else {})

    @property
    def further_seeds(self) -> int | None:
        """About how many more seeds would decide for the largest saving still open; 0 if nothing is open, None if no
        number is likely to.
        """
        return self.decided_by.data_for_nearest("further_seeds")

    @property
    def trade_offs(self) -> tuple[dict[str, Any], ...]:
        """What each tolerance buys, the smallest first: `tolerance`, `freeze`, `saved`, `loss`."""
        return tuple(
            {"tolerance": bought.tolerance, "freeze": bought.freeze.label, "saved": bought.saved, "loss": bought.loss}
            for bought in self.decided_by.trade_offs
        )

    @cached_property
    def settings(self) -> tuple[dict[str, Any], ...]:
        """All settings: losses, intervals, verdicts, savings (also of FLOPs, time and memory) and collapses."""
        return tuple(setting_rows(self.decided_by))

    @cached_property
    def words(self) -> AnswerWords:
        """The answer in words. Every surface shows parts of it and adds none of its own."""
        return answer_words(self.decided_by, self.frozen_dropout)

    @property
    def headline(self) -> str:
        """The answer in a few words."""
        return self.words.headline

    @property
    def lines(self) -> tuple[str, str]:
        """What to freeze, and what it loses and saves and how sure that is; or why not, and what to do."""
        return self.words.lines

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything else that is known about the answer, one sentence each."""
        return self.words.notes

    @property
    def sentence(self) -> str:
        """Headline, lines and notes in one paragraph."""
        return self.words.sentence

    @property
    def frozen_dropout(self) -> bool:
        """Whether frozen layers ran with dropout while they were trained."""
        cells = self.decided_by.table["cell"]
        return any(self.specs[cell].has_frozen_dropout for cell in cells if cell in self.specs)

    @property
    def yaml(self) -> str:
        """The key `trial` of a sweep file that freezes as recommended; empty if no setting is recommended."""
        if (spec := self._recommended) is None:
            return ""
        dropout = "" if spec.freeze.is_baseline else f"  frozen_dropout: {str(spec.frozen_dropout).lower()}\n"
        return freeze_yaml(spec.freeze, spec.model.n_layers) + dropout

    @property
    def own_training(self) -> str:
        """Lines of PyTorch that freeze as recommended in your own training code; empty if no setting is recommended or
        the architecture is not registered.
        """
        return "" if self._recommended is None else own_training_lines(self._recommended)

    @property
    def _recommended(self) -> TrialSpec | None:
        chosen = self.decided_by.choice
        return None if chosen is None else self.specs.get(chosen["cell"])

    @property
    def runner_up(self) -> str | None:
        """Label of the next best setting, or of the one nearest to a decision; None if there is none."""
        return None if self.runner_up_spec is None else self.runner_up_spec.label

    @property
    def runner_up_spec(self) -> FreezeSpec | None:
        """What the runner-up freezes. Not in `as_json`."""
        return None if (row := self.decided_by.runner_up) is None else _freeze_of(row)

    @property
    def freezes(self) -> list[FreezeSpec]:
        """What each of `settings` freezes. Not in `as_json`."""
        return list(self.decided_by.table["freeze_spec"])


def _freeze_of(row: Mapping[str, Any]) -> FreezeSpec:
    freeze: FreezeSpec = row["freeze_spec"]
    return freeze


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
    shares = saved_shares(frame)  # of all questions at once
    decided = ((rows, decide(rows, plan, budget=budget, value=value)) for rows in questions(frame))
    found = [answer_to(rows, specs, decision, shares) for rows, decision in decided]
    return sorted(found, key=lambda answer: not answer.decided)  # stable: sizes stay in order


def questions(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The trials of each answer, which share one `setup` and `baseline`; all columns of `trial_frame` stay."""
    frozen = frame[frame["cell"] != frame["baseline"]]
    keys = ["task", "corpus", "model", "train_size", "baseline", "setup"]
    for key, rows in sorted(frozen.groupby(keys, sort=False), key=lambda group: (*group[0][:3], -group[0][3])):
        yield frame[frame.index.isin(rows.index) | (frame["cell"] == key[4])]


def answer_to(
    rows: pd.DataFrame, specs: Mapping[str, TrialSpec], decision: Decision, shares: Mapping[str, pd.Series]
) -> Answer:
    """The answer to one question: `rows` of a `trial_frame` of equal `corpus`, `task`, `model` and `train_size`."""
    first = rows.iloc[0]
    return Answer(
        decided_by=with_shares(decision, shares),
        task=str(first["task"]),
        corpus=str(first["corpus"]),
        model=str(first["model"]),
        train_size=int(first["train_size"]),
        setup=str(rows.loc[rows["cell"] != rows["baseline"], "setup"].iloc[0]),
        specs=specs,
    )


def saved_shares(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """The shares of FLOPs, time and memory that each cell saves, by column of the table and by cell; NaN where one is
    not known, or is measured and not shown to differ from none.
    """
    costs = [cost for cost in _EACH_SAVING.values() if cost in frame.columns]
    if not costs:
        return dict.fromkeys(_EACH_SAVING, pd.Series(dtype=np.float64))
    each = savings(frame, costs)
    # FLOPs are counted; what is measured is a saving only where its interval excludes none.
    is_shown = (each["cost"] == FLOPS) | (each["low"] > 0) | (each["high"] < 0)
    saved = each.assign(saved=each["saved"].where(is_shown)).set_index("cell")
    return {name: saved.loc[saved["cost"] == cost, "saved"] for name, cost in _EACH_SAVING.items()}


def with_shares(decision: Decision, shares: Mapping[str, pd.Series]) -> Decision:
    """The decision with a column of `table` for each of `saved_shares`, by `cell`; NaN where a share is unknown."""
    cells = decision.table["cell"]
    return replace(decision, table=decision.table.assign(**{name: cells.map(share) for name, share in shares.items()}))


def setting_rows(decision: Decision) -> Iterator[dict[str, Any]]:
    """The rows of the table as JSON values."""
    for row in decision.rows:
        yield {name: _plain(row[name]) for name in _SETTING}


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def own_training_lines(spec: TrialSpec) -> str:
    """The lines that freeze `model`, of `transformers`, as this trial did; empty where nothing is frozen, and for an
    architecture that is not registered.
    """
    freeze = spec.freeze
    if spec.model.family not in MODEL_FAMILIES or freeze.is_baseline:
        return ""
    family = MODEL_FAMILIES[spec.model.family]
    names = [*family.embeddings, *family.shared] if freeze.embeddings else []
    names += family.beside_first if 0 in freeze.layers else ()
    names += [f"{family.stack}.{n}" for n in freeze.layers]
    lines = [
        f"frozen = {{{', '.join(map(json.dumps, names))}}}",
        "for name, part in model.base_model.named_modules():",
        "    if name in frozen:",
        "        part.requires_grad_(False)",
    ]
    if not spec.frozen_dropout:
        lines += [
            "        part.eval()  # no dropout ...",
            "        part.train = lambda mode=True, part=part: part  # ... also when Trainer calls model.train()",
        ]
    return "\n".join([*lines, ""])


def freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    """The key `trial` of a sweep file that freezes so."""
    return f"trial:\n  freeze: {_freeze_yaml(freeze, n_layers)}\n"


def _freeze_yaml(freeze: FreezeSpec, n_layers: int) -> str:
    if freeze.embeddings and not freeze.layers:
        return EMBEDDINGS_ALONE
    strategy = freeze.strategy if freeze.strategy in FREEZE_STRATEGIES else LAYERS  # which any reader can freeze
    depth = f", layers: {list(freeze.layers)}" if strategy == LAYERS else f", depth: {freeze.depth}"
    if strategy != LAYERS and len(possible_depths(strategy, n_layers)) == 1:
        depth = ""
    embeddings = ", embeddings: true" if freeze.embeddings else ""
    return strategy if not depth + embeddings else f"{{strategy: {strategy}{depth}{embeddings}}}"
