"""The cost model of one device: training, evaluation, set-up, frozen layers and memory, each with its spread.

Cost is regressed on work: seconds (or bytes) are a sum of terms, each a non-negative coefficient times an amount of
work, so that more work is never forecast to be cheaper. Errors are relative: each observation is divided by its value
before non-negative least squares (Lawson & Hanson 1974). Outliers, frequent on a busy machine, have reduced weights
(Huber 1964).

The log residual of a trial is the sum of three random effects: of its shape, which the terms do not fully describe;
of its launch, as the speed of a machine varies; and of the trial. Their variances are estimated jointly by
expectation maximisation (Laird & Ware 1982), with a prior that counts as a few observations, so that a handful of
trials does not look exact. An observed shape is corrected by its estimated effect, which is shrunk the more, the
fewer its trials.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.config.quantities import counted
from orchestrator.forecast.history import Observation, cold_s, gaps
from orchestrator.forecast.work import MEMORY_SHARES, Memory, PrefixWork, Work, group_key, shape_key
from trials.record import ACCRUED
from trials.spec import TrialSpec

ROUNDS = 12
HUBER = 2.0  # robust standard deviations beyond which an observation has a reduced weight
PRIOR_WEIGHT = 0.05  # weight of the prior shares relative to one observation


@dataclass(frozen=True)
class Terms:
    """Non-negative coefficients, one per term."""

    coefficients: tuple[float, ...]

    def of(self, terms: Sequence[float]) -> float:
        """Predicted seconds or bytes for amounts of work, (terms,)."""
        return float(np.dot(self.coefficients, terms))


def fit_terms(work: Sequence[Sequence[float]], observed: Sequence[float], shares: Sequence[float]) -> Terms:
    """Fit coefficients to observations.

    Args:
        work: (observations, terms).
        observed: (observations,) seconds or bytes, above 0.
        shares: (terms,) prior share of each term, for observations that cannot separate the terms.
    """
    amounts, values = np.asarray(work, float), np.asarray(observed, float)
    relative = amounts / values[:, None]
    typical = relative.mean(axis=0)
    used = typical > 0
    from scipy.optimize import nnls  # takes half a second, which a launch without past trials does not need

    prior = PRIOR_WEIGHT * np.diag(typical)
    weights = np.ones(len(values))
    coefficients = np.zeros(amounts.shape[1])
    for _ in range(ROUNDS):
        left = np.vstack([relative * weights[:, None], prior])
        right = np.concatenate([weights, PRIOR_WEIGHT * np.asarray(shares)])
        coefficients[used], _norm = nnls(left[:, used], right)
        errors = np.abs(relative @ coefficients - 1)
        scale = max(1.4826 * float(np.median(errors)), 0.01)  # standard deviation from the median of absolute errors
        weights = np.sqrt(np.minimum(1, HUBER * scale / np.maximum(errors, 1e-12)))
    return Terms(tuple(coefficients.tolist()))


@dataclass(frozen=True)
class Prior:
    """Prior standard deviations of the log effects, and the number of observations that they count as."""

    trial: float = 0.05
    shape: float = 0.10
    launch: float = 0.08
    counts: float = 3.0


@dataclass(frozen=True)
class Spread:
    """The spread of trials around the regression, as standard deviations of log effects.

    Attributes:
        trial, shape, launch: Standard deviation of each effect.
        shapes: Observed shape -> its log effect and standard error.
        launches: Observed launch -> the same.
    """

    trial: float
    shape: float
    launch: float
    shapes: dict[str, tuple[float, float]]
    launches: dict[str, tuple[float, float]]
    n: int

    def of_shape(self, key: str) -> tuple[float, float]:
        """The log effect of a shape and its standard error; 0 and the spread of shapes if it was not observed."""
        return self.shapes.get(key, (0.0, self.shape))

    def of_launch(self, key: str | None) -> tuple[float, float]:
        """The log effect of the next launch and its standard error, given a launch that ended just now, if any."""
        mean, error = self.launches.get(key or "", (0.0, 0.0))
        return mean, math.hypot(error, self.launch)


def fit_spread(log_errors: Sequence[float], shapes: Sequence[str], launches: Sequence[str], prior: Prior) -> Spread:
    """Estimate the spread of observations.

    Args:
        log_errors: (observations,) logarithm of observed over predicted.
        shapes: (observations,) shape of each.
        launches: (observations,) launch of each.
    """
    errors = np.asarray(log_errors, float)
    errors = np.clip(
        errors, *(np.median(errors) + np.array([-1.0, 1.0]))
    )  # limits the influence of a trial that is more than e times slower
    shape, launch = _Effect(shapes, prior.shape, prior.counts), _Effect(launches, prior.launch, prior.counts)
    trial = prior.trial
    for _ in range(4 * ROUNDS):
        shape.update(errors - launch.each, trial)
        launch.update(errors - shape.each, trial)
        rest = errors - shape.each - launch.each
        own = float(rest @ rest) + float(np.sum(shape.errors[shape.index] ** 2))
        trial = math.sqrt((prior.counts * prior.trial**2 + own) / (prior.counts + len(errors)))
    return Spread(trial, shape.sd, launch.sd, shape.estimates(), launch.estimates(), len(errors))


class _Effect:
    """A random effect: what the observations with the same key have in common."""

    def __init__(self, keys: Sequence[str], sd: float, counts: float) -> None:
        self.names, self.index = np.unique(np.asarray(keys, dtype=object).astype(str), return_inverse=True)
        self.counts = np.bincount(self.index)
        self.means, self.errors = np.zeros(len(self.names)), np.full(len(self.names), sd)
        self.sd, self._prior_sd, self._prior_counts = sd, sd, counts

    @property
    def each(self) -> np.ndarray:
        """(observations,) the effect on each observation."""
        return self.means[self.index]

    def update(self, errors: np.ndarray, trial: float) -> None:
        """Re-estimate the mean of each key, shrunk to 0, and the spread of the means."""
        shrunk = self.counts + (trial / self.sd) ** 2
        self.means = np.bincount(self.index, errors, minlength=len(self.names)) / shrunk
        self.errors = trial / np.sqrt(shrunk)
        total = self._prior_counts * self._prior_sd**2 + float(np.sum(self.means**2 + self.errors**2))
        self.sd = math.sqrt(total / (self._prior_counts + len(self.names)))

    def estimates(self) -> dict[str, tuple[float, float]]:
        """Key -> mean and standard error."""
        return dict(zip(self.names.tolist(), zip(self.means.tolist(), self.errors.tolist(), strict=True), strict=True))


# --- The model of a device


# Shares of the terms of each sum, for observations that cannot separate them; as on a CPU with a small model.
TRAINING_SHARES = (0.10, 0.30, 0.45, 0.10, 0.05)
EVALUATION_SHARES = (0.10, 0.80, 0.10)
PREFIX_SHARES = (0.30, 0.70)
GAP_SHARES = (0.50, 0.30, 0.20)
NEW_MODEL, NEW_CORPUS = (
    0.30,
    0.08,
)  # extra standard deviation of the logarithm for a model or corpus without observations
SECONDS, BYTES = Prior(trial=0.06, shape=0.10, launch=0.20), Prior(trial=0.03, shape=0.08, launch=0.12)
PREFIX_SD, SETUP_SD = 0.30, 0.30
LARGE, COMPUTED = 0.05, 0.33  # of the most work, and of the highest rate: below it the states were cached already


@dataclass(frozen=True)
class CostModel:
    """The cost of trials of one precision on a device.

    Attributes:
        training, evaluation, prefix, gap: Terms of seconds.
        cold: Extra seconds of the first trial of a worker.
        spread: Spread of the seconds of training and evaluation.
        memory_spread: Spread of the peak memory.
        rates: What accrues in a second of training, by column of `ACCRUED`: median and standard deviation of the
            logarithm; None without measurements.
        trials, pilots: Shape -> number of observed trials, and steps of its pilot.
        groups, models: Observed pairs of model and corpus, and observed models.
    """

    training: Terms
    evaluation: Terms
    prefix: Terms
    gap: Terms
    memory: Terms
    setup: float
    cold: float
    spread: Spread
    memory_spread: Spread
    rates: dict[str, tuple[float, float] | None]
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

    def peak_bytes(self, memory: Memory) -> float:
        """Predicted peak memory, in bytes."""
        return self.memory.of(memory.terms)

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
    memory = fit_terms(
        [o.memory.terms for o in observations], [float(o.peak_memory_bytes) for o in observations], MEMORY_SHARES
    )
    predicted = [training.of(o.work.training) + evaluation.of(o.work.evaluation) for o in observations]
    errors = [math.log((o.train_s + o.eval_s) / s) for o, s in zip(observations, predicted, strict=True)]
    peaks = [math.log(o.peak_memory_bytes / memory.of(o.memory.terms)) for o in observations]
    shapes, launches = [o.shape for o in observations], [o.launch for o in observations]
    own = [o for o in observations if not o.is_pilot]
    return CostModel(
        training=training,
        evaluation=evaluation,
        prefix=_prefix(observations),
        gap=_gap(own),
        memory=memory,
        setup=float(np.median([o.setup_s for o in observations])),
        cold=cold_s(observations),
        spread=fit_spread(errors, shapes, launches, SECONDS),
        memory_spread=fit_spread(peaks, shapes, launches, BYTES),
        rates={name: _rate(observations, name) for name in ACCRUED},
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


def _rate(observations: Sequence[Observation], name: str) -> tuple[float, float] | None:
    rates = [amount / o.train_s for o in observations if (amount := o.accrued[name])]
    return (float(np.median(rates)), float(np.std(np.log(rates))) + 0.05) if rates else None
