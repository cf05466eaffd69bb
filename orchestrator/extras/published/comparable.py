"""Which published numbers may be compared with which of ours, and the reason where they may not.

With a reason that starts with UNKNOWN_LEVEL, the reader should see each of our metrics that the study may mean.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.extras.published.our_results import COUNTED, RELATIVE, Setup
from orchestrator.extras.published.protocols import SPLITS, corpus_refusal, same_model
from orchestrator.extras.published.study import UNKNOWN, Group, Published, Study

UNKNOWN_LEVEL = "metric unknown: "


def forbidden(study: Study, result: Published) -> Iterator[str]:
    """Why a number cannot be compared with any trial of ours."""
    metric, freeze = study.metrics[result.metric], study.freezes[result.freeze]
    if not metric.columns:
        yield f"our store has no such metric: {metric.called}"
        return
    if metric.columns == ("train_s",):
        yield "times of different hardware are not compared; see saved_train, the share of the baseline's time"
        return
    if len(metric.columns) > 1:
        yield f"{UNKNOWN_LEVEL}{metric.called}; could be {' or '.join(metric.columns)}"
    if metric.split == UNKNOWN:
        yield "the study does not say on which split it scored"
    if not freeze.is_exact:
        parts = ["layers"] * (freeze.layers == UNKNOWN) + ["embeddings"] * (freeze.embeddings == UNKNOWN)
        yield f"the study does not say which {' and '.join(parts)} were frozen ({freeze.label})"
    corpus = study.corpora.get(group_of(study, result.group).corpus or "")
    if corpus is not None and corpus.sizes == UNKNOWN:
        yield f"the study does not say which corpus it used ({corpus.name})"


def fits(study: Study, group: Group, setup: Setup) -> bool:
    """Whether one of our set-ups has the task, corpus and train size of a table."""
    if group.corpus is None:
        return True
    corpus, spec = study.corpora[group.corpus], setup.spec
    if corpus.task != spec.task or corpus_refusal(corpus, spec.data) is not None:
        return False
    assert spec.data.sizes is not None
    return spec.train_size == (group.train_size or spec.data.sizes[0])


def forbidden_here(study: Study, group: Group, result: Published, setup: Setup) -> str | None:
    """Why a number cannot be compared with this set-up, although with others."""
    metric, spec = study.metrics[result.metric], setup.spec
    corpus = study.corpora.get(group.corpus or "")
    if metric.split in SPLITS and corpus and (reason := corpus_refusal(corpus, spec.data, metric.split)):
        return reason
    if metric.columns[0] in COUNTED and not same_model(study.protocol.model, spec.model.name):
        return f"parameters are those of another model ({spec.model.name}, theirs {study.protocol.model})"
    return None


def by_definition(study: Study, result: Published) -> bool:
    """Whether a number is 0 because it is the baseline's difference to itself."""
    metric = study.metrics[result.metric]
    return study.freezes[result.freeze].is_baseline and (metric.to_baseline or metric.columns[0] in RELATIVE)


def group_of(study: Study, name: str) -> Group:
    """The table of that id."""
    return next(group for group in study.results if group.id == name)
