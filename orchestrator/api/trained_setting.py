"""The setting that `train` takes: what a sweep recommends, or a person names, on all of train."""

from __future__ import annotations

from orchestrator.analysis.freeze_names import freeze_name
from orchestrator.api.answering import answers_of
from orchestrator.api.answering import asked as plan_asked
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from orchestrator.store.stored_specs import planned_specs
from orchestrator.store.sweep_plans import SweepPlan
from trials.datasets.corpus import fingerprint
from trials.errors import ConfigError
from trials.settings import LabelParts
from trials.spec import TrialSpec
from trials.tasks.task import read_corpus

WATCHED = 0.05  # of train and dev together, which chooses the epoch


def chosen_trial(results: ResultStore, asked: SweepPlan, tolerance: float | None, freeze: str | None) -> TrialSpec:
    """A trial of the recommended setting, or of the one that is named. Raises ConfigError."""
    specs = planned_specs(asked)
    labels = {
        (label := spec.freeze.label): {label, LabelParts.of(label).word, freeze_name(label, spec.model.n_layers)}
        for spec in specs
    }
    if freeze is not None:
        wanted = [label for label, names in labels.items() if freeze in names]
        if len(wanted) != 1:
            raise ConfigError(f"--freeze {freeze!r}: {asked.name} has {', '.join(labels)}.")
        chosen = wanted[0]
        matching = [spec for spec in specs if spec.freeze.label == chosen]
    else:
        answers = answers_of(results, specs, plan_asked(asked.asks, tolerance=tolerance))
        decided = [answer for answer in answers if answer.freeze is not None]
        if not decided:
            raise ConfigError(
                f"{asked.name}: nothing is recommended yet. `permafrost answer --sweep {asked.name}` says what it "
                f"takes; --tolerance takes a larger loss, --freeze names a setting ({', '.join(labels)})."
            )
        matching = [
            spec
            for answer in decided
            for spec in specs
            if spec.freeze.label == answer.freeze and (spec.task, spec.data.name, spec.model.name, spec.train_size)
            == (answer.task, answer.corpus, answer.model, answer.train_size)
        ]  # fmt: skip
    if len({spec.cell_id for spec in matching}) != 1:
        what = "settings of that name" if freeze is not None else "recommended settings"
        raise ConfigError(f"{asked.name}: has {counted(len({s.cell_id for s in matching}), 'setting')}: {what} of "
                          "several corpora, models or recipes. Make a sweep of one of them.")  # fmt: skip
    return matching[0]


def on_all_of_train(spec: TrialSpec, *, with_dev: bool) -> TrialSpec:
    """The setting on all of train; or on train and dev together, but for the share that chooses the epoch."""
    data = spec.data
    if with_dev:
        pooled = (*data.train, *data.dev)
        changes = {"train": pooled, "dev": (), "held_out": WATCHED, "folds": None, "fold": 0, "sizes": None}
        changes["fingerprint"] = fingerprint(pooled, (), data.test, data.mismatched)
        data = data.model_copy(update=changes)
    corpus = read_corpus(spec.task, data)
    sizes = len(corpus.train), len(corpus.dev), len(corpus.test)
    content = data.model_copy(update={"sizes": sizes}).model_dump()
    return TrialSpec.model_validate(spec.model_dump() | {"data": content, "train_size": sizes[0]})
