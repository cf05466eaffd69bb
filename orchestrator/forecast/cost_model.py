"""The cost model of one device: seconds of training, evaluation, set-up and frozen layers, with their spread."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.config.quantities import counted
from orchestrator.forecast.history import Observation, cold_s, gaps
from orchestrator.forecast.regression import Prior, Spread, Terms, fit_spread, fit_terms
from orchestrator.forecast.work import PrefixWork, Work, group_key, shape_key
from trials.spec import TrialSpec

# Shares of the terms of each sum, for observations that cannot separate them; as on a CPU with a small model.
TRAINING_SHARES = (0.10, 0.30, 0.45, 0.10, 0.05)
EVALUATION_SHARES = (0.10, 0.80, 0.10)
PREFIX_SHARES = (0.30, 0.70)
GAP_SHARES = (0.50, 0.30, 0.20)
NEW_MODEL, NEW_CORPUS = (
    0.30,
    0.08,
)  # extra standard deviation of the logarithm for a model or corpus without observations
SECONDS = Prior(trial=0.06, shape=0.10, launch=0.20)
PREFIX_SD, SETUP_SD = 0.30, 0.30
LARGE, COMPUTED = 0.05, 0.33  # of the most work, and of the highest rate: below it the states were cached already


@dataclass(frozen=True)
class CostModel:
    """The cost of trials of one precision on a device.

    Attributes:
        training, evaluation, prefix, gap: Terms of seconds.
        cold: Extra seconds of the first trial of a worker.
        spread: Spread of the seconds of training and evaluation.
        trials, pilots: Shape -> number of observed trials, and steps of its pilot.
        groups, models: Observed pairs of model and corpus, and observed models.
    """

    training: Terms
    evaluation: Terms
    prefix: Terms
    gap: Terms
    setup: float
    cold: float
    spread: Spread
    trials: dict[str, int]
    pilots: dict[str, int]
    groups: frozenset[str]
    models: frozenset[str]
    n: int

    def seconds(self, work: Work) -> float:
        """Seconds of training and evaluation, without the correction for the shape."""
        return self.training.of(work.training) + self.evaluation.of(work.evaluation)

    def prefix_s(self, work: PrefixWork) -> float:
        """Seconds to compute states of frozen layers."""
        return self.prefix.of((work.items, work.forward))

    def gap_s(self, work: Work, seconds: float) -> float:
        """Seconds lost around a trial: commits, checkpoints, scheduling."""
        return self.gap.of((1.0, work.evaluations, seconds))

    def unfamiliar(self, spec: TrialSpec) -> float:
        """Extra standard deviation for a model or corpus without observations."""
        if spec.model.revision not in self.models:
            return NEW_MODEL
        return 0.0 if group_key(spec) in self.groups else NEW_CORPUS

    def source(self, spec: TrialSpec) -> str:
        """What the figures of a trial are estimated from."""
        key = shape_key(spec)
        if key in self.trials:
            return f"from {counted(self.trials[key], 'trial')} on this device"
        if key in self.pilots:
            return f"from a pilot of {counted(self.pilots[key], 'step')}"
        return "from the cost model"


def fit_model(observations: Sequence[Observation]) -> CostModel:
    """Fit the cost model to observations of one device and precision, at least one."""
    training = fit_terms([o.work.training for o in observations], [o.train_s for o in observations], TRAINING_SHARES)
    evaluated = [o for o in observations if o.eval_s > 0]
    evaluation = fit_terms([o.work.evaluation for o in evaluated], [o.eval_s for o in evaluated], EVALUATION_SHARES)
    predicted = [training.of(o.work.training) + evaluation.of(o.work.evaluation) for o in observations]
    errors = [math.log((o.train_s + o.eval_s) / s) for o, s in zip(observations, predicted, strict=True)]
    shapes, launches = [o.shape for o in observations], [o.launch for o in observations]
    own = [o for o in observations if not o.is_pilot]
    return CostModel(
        training=training,
        evaluation=evaluation,
        prefix=_prefix(observations),
        gap=_gap(own),
        setup=float(np.median([o.setup_s for o in observations])),
        cold=cold_s(observations),
        spread=fit_spread(errors, shapes, launches, SECONDS),
        trials=Counter(o.shape for o in own),
        pilots={o.shape: o.steps for o in observations if o.is_pilot},
        groups=frozenset(o.group for o in observations),
        models=frozenset(o.spec.model.revision for o in observations),
        n=len(observations),
    )


def _prefix(observations: Sequence[Observation]) -> Terms:
    """Fitted only to trials that computed much: cached states would look as if they cost nothing."""
    built = [o for o in observations if o.prefix.forward > 0 and o.prefix_s > 0.02]
    most = max((o.prefix.forward for o in built), default=0.0)
    rates = {id(o): o.prefix_s / o.prefix.forward for o in built if o.prefix.forward >= LARGE * most}
    built = [o for o in built if rates.get(id(o), 0.0) >= COMPUTED * max(rates.values())]
    if not built:
        return Terms((0.0, 0.0))
    return fit_terms([(o.prefix.items, o.prefix.forward) for o in built], [o.prefix_s for o in built], PREFIX_SHARES)


def _gap(observations: Sequence[Observation]) -> Terms:
    lost = [(o, seconds) for o, seconds in gaps(observations) if 0.001 < seconds < 60]
    if not lost:
        return Terms((0.1, 0.0, 0.0))
    return fit_terms([(1.0, o.work.evaluations, o.seconds) for o, _ in lost], [s for _, s in lost], GAP_SHARES)
