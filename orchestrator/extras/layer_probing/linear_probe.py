"""Linear probes: how well a linear model reads the labels from the untouched encoder's states at every depth.

The probe is scikit-learn's ridge classifier (ridge regression for a task with numbers) on standardised states; its
penalty is chosen by leave-one-out cross-validation on train alone, in closed form. It learns from the train subset of a
trial and is scored on dev with the task's own metric.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from orchestrator.extras.layer_probing.control_labels import Type, control_labels, types_of
from orchestrator.extras.layer_probing.layer_curves import states_key, subset_seed
from orchestrator.extras.layer_probing.layer_states import read_states, reading_of, states_at_every_depth
from trials.cache.encoding import EncodedCorpus, encode_for
from trials.errors import ModelError
from trials.hardware.device import default_device
from trials.metrics.contributions import accuracy, counted
from trials.metrics.metric import METRICS, PredictedSplit, TaskMetric
from trials.metrics.task_metrics import counts_of
from trials.models.load import load_model, load_tokenizer
from trials.prefix.rule import why_not_cut
from trials.seeding import torch_stream
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import NO_PREDICTION, Example, Split, as_score
from trials.training.subset import train_subset

MOST_PLACES = (
    50_000  # of train that a probe learns from: the sentences of the subset in its order, until they have so many
)
PENALTIES = tuple(10.0**power for power in range(-1, 7))
ACCURACY = "accuracy"


@dataclass(frozen=True)
class Probe:
    """One probe, from the train subset of the trial `spec`; the others are columns of `schema.PROBES`."""

    spec: TrialSpec
    depth: int
    score: float
    control_score: float
    selectivity: float
    contributions: tuple[float, ...]
    selectivity_contributions: tuple[float, ...]
    n_places: int
    seconds: float


def probe_layers(
    specs: Sequence[TrialSpec],
    *,
    device: torch.device | None = None,
    done: Callable[[str, int, int], None] = lambda name, n, total: None,
) -> Iterator[Probe]:
    """Probes at every depth, of settings that share one pass of the encoder (`layer_curves.states_key`).

    Args:
        specs: One trial of each train size and subset seed.
        device: By default the first GPU, else the CPU.
        done: Is told how much of the pass and of the probes is done.

    Raises:
        DataError, ModelError: a file is absent, broken or not the planned one, or the encoder cannot be cut.
    """
    first, device = specs[0], device or default_device()
    assert len({states_key(spec) for spec in specs}) == 1
    if why := why_not_cut(first, 1):
        raise ModelError(f"{first.model.name}: its layers cannot be run one by one: {why}")
    task, data = TASKS[first.task], encode_for(first)
    subsets = [_capped(train_subset(spec, data.train), data.train) for spec in specs]
    used = np.unique(np.concatenate(subsets))
    examples = [data.train.examples[i] for i in used] + data.dev.examples
    places = [np.searchsorted(used, subset) for subset in subsets]
    init = torch_stream(0, "init")
    loaded = load_model(first.model, head=task.head, n_outputs=len(data.labels), dropout=first.dropout, init=init)
    reading = reading_of(loaded, task.head)
    loaded.model.to(device)
    tokenizer = load_tokenizer(first.model, task.head)
    specials = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    types = [types_of(example, specials, of_words=reading == "words") for example in examples]
    learners = [_Learner(spec, data, examples, types, where) for spec, where in zip(specs, places, strict=True)]
    n_depths, passed, n_probed = len(loaded.parts.encoder_layers) + 1, 0, 0

    def count(n: int) -> None:
        nonlocal passed
        passed += n
        done(f"states of {first.data.name}", passed, n_depths * len(examples))

    for at in states_at_every_depth(first, loaded, examples, device, count):
        features = read_states(examples, at.states, reading)
        for learner in learners:
            yield learner.probe(at.depth, features)
            n_probed += 1
            done(f"probes of {first.data.name}", n_probed, n_depths * len(learners))


def _capped(subset: np.ndarray, train: Split) -> np.ndarray:
    """The beginning of a subset that has `MOST_PLACES`, or all of it."""
    places = np.cumsum([len(train.examples[i].gold) for i in subset])
    return subset[: int(np.searchsorted(places, MOST_PLACES)) + 1]


class _Learner:
    """The probes of one train subset: what they learn, and what they are scored on."""

    def __init__(
        self,
        spec: TrialSpec,
        data: EncodedCorpus,
        examples: Sequence[Example],
        types: Sequence[Sequence[Type]],
        subset: np.ndarray,
    ) -> None:
        """`examples` are those that ran, dev last, with the `types` of their places; `subset` indexes them."""
        self._spec, self._data, self._task = spec, data, TASKS[spec.task]
        has_state = [example.at >= 0 for example in examples]
        ends = np.cumsum([0, *(int(has.sum()) for has in has_state)])
        n_train = len(examples) - len(data.dev.examples)
        self._dev_rows, self._dev_has_state = slice(int(ends[n_train]), None), np.concatenate(has_state[n_train:])
        rows = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in subset])
        gold = np.concatenate([examples[i].gold[has_state[i]] for i in subset])
        seen = [type_ for i in subset for type_, has in zip(types[i], has_state[i], strict=True) if has]
        self._rows, self._gold = rows, gold
        of_dev = [type_ for of_example in types[n_train:] for type_ in of_example]
        self._control, self._control_dev = control_labels([seen, of_dev], gold, subset_seed(spec))

    def probe(self, depth: int, features: np.ndarray) -> Probe:
        """The probe on (places, width) features of the examples that ran."""
        began = time.perf_counter()
        train, dev = features[self._rows], features[self._dev_rows]
        task, split, names = self._task, self._data.dev, self._data.names
        predicted = self._predicted(train, self._gold, dev)
        control = self._predicted(train, self._control, dev)
        measured = task.measure(split.gold, predicted, split.starts, names)
        score = METRICS[self._spec.score or task.metrics[0]]
        plain = METRICS[ACCURACY] if ACCURACY in task.metrics else score
        own = task.predicted_split(split.gold, predicted, split.starts, names)
        others = task.predicted_split(self._control_dev, control, split.starts, names)
        control_score = plain.as_score(plain.function(others))
        return Probe(
            spec=self._spec,
            depth=depth,
            score=as_score(self._spec.task, self._spec.score, measured),
            control_score=control_score,
            selectivity=plain.as_score(plain.function(own)) - control_score,
            contributions=tuple(_of_each_example(score, own).tolist()),
            selectivity_contributions=tuple((_of_each_example(plain, own) - _of_each_example(plain, others)).tolist()),
            n_places=len(train),
            seconds=time.perf_counter() - began,
        )

    def _predicted(self, train: np.ndarray, labels: np.ndarray, dev: np.ndarray) -> np.ndarray:
        """(places,) predictions of dev; NO_PREDICTION for a word without a subword."""
        predictions = np.full(len(self._dev_has_state), NO_PREDICTION, dtype=labels.dtype)
        predictions[self._dev_has_state] = fitted(train, labels, regression=self._task.regression).predict(dev)
        return predictions


def _of_each_example(metric: TaskMetric, split: PredictedSplit) -> np.ndarray:
    """(examples,) values whose mean is the score, for the interval of the score itself.

    The accuracy's own contributions, correct words over the mean words of an example, are for differences: those of a
    score vary with the length of sentences. Pseudo-values do not.
    """
    if metric.name == ACCURACY and len(split.starts) > 1:
        return counted(counts_of(split), accuracy)
    return metric.score_contributions(split)


def fitted(features: np.ndarray, labels: np.ndarray, *, regression: bool) -> Any:
    """A linear model of labels (places,) from features (places, width); the constant one where all labels are equal."""
    if not regression and len(np.unique(labels)) < 2:
        return DummyClassifier().fit(features, labels)
    ridge = RidgeCV(PENALTIES) if regression else RidgeClassifierCV(PENALTIES)
    return make_pipeline(StandardScaler(), ridge).fit(features, labels)
