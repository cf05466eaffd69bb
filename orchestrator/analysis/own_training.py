"""What an answer recommends as others write it: the YAML of a sweep file, and lines of PyTorch for training code of
one's own, which need no Permafrost.
"""

from __future__ import annotations

import json

from trials.freeze.strategies import ADAPTIVE, FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.models.family import MODEL_FAMILIES
from trials.settings import EMBEDDINGS_ALONE, FreezeSpec
from trials.spec import TrialSpec


def own_training_lines(spec: TrialSpec) -> str:
    """The lines that freeze `model`, of `transformers`, as this trial did; empty where nothing is frozen, and for an
    architecture that is not registered.
    """
    freeze = spec.freeze
    if spec.model.family not in MODEL_FAMILIES or freeze.is_baseline or freeze.rule is not None:
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
