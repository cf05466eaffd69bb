"""Stores of made-up trials that fit the published studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.store import ResultStore
from tests.builders import make_spec, merged
from tests.dashboards.stores import Invented, write_store
from trials.spec import TrialSpec

DISTILBERT = {"name": "distilbert/distilbert-base-multilingual-cased"}
EWT = {"name": "UD_English-EWT", "sizes": (12544, 2001, 2077)}
NSC = {"name": "UD_Naija-NSC", "sizes": (7279, 990, 972)}
CONLL = {"name": "conll2003", "sizes": (14041, 3250, 3453), "format": "columns"}
COLA = {"name": "cola", "sizes": (8551, 1043, 0), "format": "tsv"}


def _freezes(n_layers: int) -> dict[str, dict[str, Any]]:
    """Nothing, all, alternating, and every depth from both ends."""
    none = {"none": {}, "alternating": {"strategy": "alternating", "layers": tuple(range(0, n_layers, 2))}}
    ends: dict[str, dict[str, Any]] = {"all": {"strategy": "all_encoder", "layers": tuple(range(n_layers))}}
    for depth in range(1, n_layers):
        ends[f"first_{depth}"] = {"strategy": "first_k", "layers": tuple(range(depth))}
        ends[f"last_{depth}"] = {"strategy": "last_k", "layers": tuple(range(n_layers - depth, n_layers))}
    return {**none, **ends}


def _trials(n_seeds: int, freezes: list[dict[str, Any]], **shared: Any) -> list[TrialSpec]:
    return [make_spec(**merged(shared, {"freeze": f, "seed": s})) for f in freezes for s in range(n_seeds)]


def emekaeze() -> list[TrialSpec]:
    """English and Naija, five strategies, three seeds."""
    of = _freezes(6)
    five = [of[name] for name in ("none", "all", "first_2", "first_4", "alternating")]
    shared = {"model": DISTILBERT, "lowercase": True}
    return [
        *_trials(3, five, data=EWT, train_size=12544, **shared),
        *_trials(3, five, data=NSC, train_size=7279, **shared),
    ]


def brown() -> list[TrialSpec]:
    """English, nothing and the first three layers."""
    of = _freezes(6)
    return _trials(3, [of["none"], of["first_3"]], data=EWT, train_size=12544)


def kairatuly() -> list[TrialSpec]:
    """CoNLL-2003, 0 to 12 layers from either end."""
    of = _freezes(12)
    model = {"n_layers": 12, "name": "google-bert/bert-base-cased", "family": "bert"}
    freezes = [freeze for name, freeze in of.items() if name != "alternating"]
    return _trials(2, freezes, task="ner", data=CONLL, model=model, train_size=14041)


def freezing_bert() -> list[TrialSpec]:
    """CoLA, the post's seven freezes, all sizes but 500, five seeds."""
    of = _freezes(12)
    shared = {"task": "cola", "score": "accuracy", "data": COLA}
    model = {"n_layers": 12, "name": "FacebookAI/roberta-base", "family": "roberta"}
    deep = [{**of[name], "embeddings": True} for name in ("first_2", "first_4", "first_8", "first_10", "all")]
    freezes = [{"strategy": "first_k", "embeddings": True}, {}, *deep]
    return [
        spec for size in (50, 100, 200, 1000) for spec in _trials(5, freezes, model=model, train_size=size, **shared)
    ]


STUDIES: dict[str, tuple[Callable[[], list[TrialSpec]], Callable[[TrialSpec], float]]] = {
    "emekaeze_pos": (emekaeze, lambda spec: 0.965 - 0.0002 * spec.freeze.depth - 0.04 * (spec.freeze.depth == 6)),
    "brown_pos": (brown, lambda spec: 0.95 - 0.0002 * bool(spec.freeze.depth)),
    "kairatuly_ner": (kairatuly, lambda spec: 0.9 - 0.003 * spec.freeze.depth - 0.3 * (spec.freeze.depth == 12)),
    "freezing_bert_glue": (freezing_bert, lambda spec: 0.691 + 0.0001 * min(spec.train_size, 800)),
}


def study_store(folder: Path, study: str) -> ResultStore:
    """A store of trials that fit a study."""
    trials, score = STUDIES[study]
    return write_store(folder, trials(), Invented(score=score, noise=0.0015), tags=False)
