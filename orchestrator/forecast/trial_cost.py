"""The seconds of a trial, expected from observations of trials like it.

Of a shape that was timed, by its seconds per item; of another, between those of the same model and corpus that were,
linear in passes through the layers (`trials.prefix.work`); else from other corpora or models, in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.analysis.cells import grouped
from orchestrator.config.quantities import counted
from orchestrator.forecast.history import Observation
from trials.outside.plain_files import read_json
from trials.prefix.work import forward_passes, group_key, scored_items, shape_key, train_passes
from trials.settings import ModelSpec
from trials.spec import TrialSpec

# Standard deviations of the logarithm of seconds: of a machine's speed between launches, of a trial in its launch, and
# more where the shape, the corpus or the model was not timed.
LAUNCH_SD, TRIAL_SD = 0.20, 0.06
UNSEEN_SD = (0.0, 0.1, 0.3, 0.5)
PRIOR = 3.0  # observations that the first two count as


@dataclass(frozen=True)
class Expected:
    """The expected cost of a trial: median seconds, the standard deviation of their logarithm, and where from."""

    seconds: float
    sd: float
    source: str


class TrialCosts:
    """The costs of trials of one precision on a device."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        """At least one observation."""
        self._observations = observations
        self._by_shape = grouped(observations, lambda o: o.shape)
        self._sd = _spread(self._by_shape)

    def of(self, spec: TrialSpec) -> Expected | None:
        """The cost of a trial; None if only a model was timed whose size is unknown."""
        shape, group, model = shape_key(spec), group_key(spec), spec.model
        kinds: list[Callable[[Observation], bool]] = [
            lambda o: o.group == group,
            lambda o: o.spec.model.revision == model.revision,
            lambda o: _layer_ratio(model, o.spec.model) is not None,
        ]
        alike = self._by_shape.get(shape, [])
        level = 0
        while not alike and level < len(kinds):
            alike = [o for o in self._observations if kinds[level](o)]
            level += 1
        if not alike:
            return None
        scales = [1.0 if level < 3 else _layer_ratio(model, o.spec.model) or 1.0 for o in alike]
        scaled = list(zip(scales, alike, strict=True))
        train = [(train_passes(o.spec), scale * o.train_s / o.trained) for scale, o in scaled]
        scored = [(forward_passes(o.spec), scale * o.eval_s / o.scored) for scale, o in scaled if o.scored]
        seconds = (
            spec.train_size * spec.optim.epochs * _between(train_passes(spec), train)
            + scored_items(spec) * _between(forward_passes(spec), scored)
            + float(np.mean([o.once_s for o in alike]))
        )
        return Expected(seconds, math.hypot(self._sd, UNSEEN_SD[level]), _source(alike) if level == 0 else COST_MODEL)


COST_MODEL = "from the cost model"


def _source(alike: Sequence[Observation]) -> str:
    if trials := sum(not o.is_pilot for o in alike):
        return f"from {counted(trials, 'trial')} on this device"
    return f"from a pilot of {counted(alike[0].steps, 'step')}"


def _layer_ratio(model: ModelSpec, other: ModelSpec) -> float | None:
    """How many times the parameters of the other's layers those of a model have; None if a config cannot be read."""
    try:
        return _layer_parameters(model) / _layer_parameters(other)
    except (OSError, ValueError):
        return None


def _layer_parameters(model: ModelSpec) -> int:
    """Of one layer, without biases and norms. Raises OSError, ValueError: config.json or its width is missing."""
    config = read_json(Path(model.path) / "config.json")
    width = next((config[key] for key in ("hidden_size", "dim", "d_model", "n_embd") if config.get(key)), 0)
    if not width:
        raise ValueError(f"{model.path}/config.json: has no hidden size")
    inner_keys = ("intermediate_size", "hidden_dim", "d_ff", "encoder_ffn_dim", "n_inner")
    inner: int = next((config[key] for key in inner_keys if config.get(key)), 4 * width)
    return int(4 * width**2 + 2 * width * inner)


def _between(passes: float, known: Sequence[tuple[float, float]]) -> float:
    """Seconds of an item: linear in `passes` between the medians of those known, in proportion outside of them."""
    if not known:
        return 0.0
    medians = {x: float(np.median(ys)) for x, ys in _seconds_by_passes(known).items()}
    xs = sorted(medians)
    nearest = min(max(passes, xs[0]), xs[-1])
    return float(np.interp(nearest, xs, [medians[x] for x in xs])) * passes / nearest


def _seconds_by_passes(known: Sequence[tuple[float, float]]) -> Mapping[float, list[float]]:
    return {x: [y for _, y in pairs] for x, pairs in grouped(known, lambda pair: pair[0]).items()}


def _spread(by_shape: Mapping[str, Sequence[Observation]]) -> float:
    """The standard deviation of the logarithm of seconds around the median of a shape, in a launch to come.

    A launch counts once, however many trials it had.
    """
    errors: list[tuple[str, float]] = []
    for alike in by_shape.values():
        rates = [(o.launch, math.log(o.train_s / o.trained)) for o in alike if not o.is_pilot]
        middle = float(np.median([rate for _, rate in rates])) if rates else 0.0
        errors += [(launch, rate - middle) for launch, rate in rates]
    launches = [np.array([error for _, error in of]) for of in grouped(errors, lambda error: error[0]).values()]
    means = [float(of.mean()) for of in launches]
    within = sum(float(((of - mean) ** 2).sum()) for of, mean in zip(launches, means, strict=True))
    launch = (PRIOR * LAUNCH_SD**2 + sum(mean**2 for mean in means)) / (PRIOR + len(means))
    return math.sqrt(launch + (PRIOR * TRIAL_SD**2 + within) / (PRIOR + len(errors)))
