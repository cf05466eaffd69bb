"""The cost model of one device: terms of training, evaluation, set-up, frozen layers and memory, and their spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.forecast.cost_regression import Prior, Spread, Terms, fit_spread, fit_terms
from orchestrator.forecast.history import cold_s, gaps
from orchestrator.forecast.observation import Observation
from orchestrator.forecast.work import Memory, PrefixWork, Work, group_key, shape_key
from trials.spec import TrialSpec

# Where the observations do not tell the terms of a sum apart: which part of it each is, as on a CPU with a small model.
TRAINING_SHARES = (0.10, 0.30, 0.45, 0.10, 0.05)
EVALUATION_SHARES = (0.10, 0.80, 0.10)
PREFIX_SHARES = (0.30, 0.70)
GAP_SHARES = (0.50, 0.30, 0.20)
MEMORY_SHARES = (0.40, 0.15, 0.20, 0.15, 0.10)
NEW_MODEL, NEW_CORPUS = 0.30, 0.08  # more standard deviation of the logarithm where nothing of it was observed
SECONDS, BYTES = Prior(trial=0.06, shape=0.10, launch=0.20), Prior(trial=0.03, shape=0.08, launch=0.12)
PREFIX_SD, SETUP_SD = 0.30, 0.30
LARGE, COMPUTED = 0.05, 0.33  # of the most work, and of the highest rate: below it states were kept already


@dataclass(frozen=True)
class CostModel:
    """What trials of one precision take on a device.

    Attributes:
        training, evaluation, prefix, gap, memory: Terms of seconds, and of bytes.
        setup: Usual seconds of set-up.
        cold: Seconds more for the first trial of a worker.
        spread: Of the seconds of training and evaluation.
        memory_spread: Of the peak of memory.
        watts: Median, and standard deviation of the logarithm; None where no energy was counted.
        trials, pilots: How many were seen of each shape; pilots by their steps.
        groups, models: Corpora with their model, and models, that were seen.
        n: Trials and pilots seen.
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
    watts: tuple[float, float] | None
    trials: dict[str, int]
    pilots: dict[str, int]
    groups: frozenset[str]
    models: frozenset[str]
    n: int

    def seconds(self, work: Work) -> float:
        """Of training and evaluation, before what is known of the shape."""
        return self.training.of(work.training) + self.evaluation.of(work.evaluation)

    def prefix_s(self, work: PrefixWork) -> float:
        """Of computing states of frozen layers."""
        return self.prefix.of((work.items, work.forward))

    def gap_s(self, work: Work, seconds: float) -> float:
        """Lost around a trial: commits, checkpoints, hand-over."""
        return self.gap.of((1.0, work.evaluations, seconds))

    def peak_bytes(self, memory: Memory) -> float:
        """Of memory."""
        return self.memory.of(memory.terms)

    def unfamiliar(self, spec: TrialSpec) -> float:
        """Standard deviation to add for a model or corpus of which nothing was seen."""
        if spec.model.revision not in self.models:
            return NEW_MODEL
        return 0.0 if group_key(spec) in self.groups else NEW_CORPUS

    def source(self, spec: TrialSpec) -> str:
        """What the figures of a trial are told from."""
        key = shape_key(spec)
        if key in self.trials:
            n = self.trials[key]
            return f"from {n} trial{'s' if n > 1 else ''} on this device"
        if key in self.pilots:
            return f"from a pilot of {self.pilots[key]} steps"
        return "from the cost model"


def fit_model(observations: Sequence[Observation]) -> CostModel:
    """The cost model of observations of one device and precision, at least one of them."""
    training = fit_terms([o.work.training for o in observations], [o.train_s for o in observations], TRAINING_SHARES)
    evaluated = [o for o in observations if o.eval_s > 0]
    evaluation = fit_terms([o.work.evaluation for o in evaluated], [o.eval_s for o in evaluated], EVALUATION_SHARES)
    memory = fit_terms(
        [o.memory.terms for o in observations], [float(o.peak_memory_bytes) for o in observations], MEMORY_SHARES
    )
    said = [training.of(o.work.training) + evaluation.of(o.work.evaluation) for o in observations]
    missed = [math.log((o.train_s + o.eval_s) / s) for o, s in zip(observations, said, strict=True)]
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
        spread=fit_spread(missed, shapes, launches, SECONDS),
        memory_spread=fit_spread(peaks, shapes, launches, BYTES),
        watts=_watts(observations),
        trials=_counted(o.shape for o in own),
        pilots={o.shape: o.steps for o in observations if o.is_pilot},
        groups=frozenset(o.group for o in observations),
        models=frozenset(o.spec.model.revision for o in observations),
        n=len(observations),
    )


def _prefix(observations: Sequence[Observation]) -> Terms:
    """Only of trials that computed much: what was kept from sweeps before would look as if it cost nothing."""
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


def _watts(observations: Sequence[Observation]) -> tuple[float, float] | None:
    watts = [o.energy_j / o.train_s for o in observations if o.energy_j]
    return (float(np.median(watts)), float(np.std(np.log(watts))) + 0.05) if watts else None


def _counted(shapes: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for shape in shapes:
        counts[shape] = counts.get(shape, 0) + 1
    return counts
