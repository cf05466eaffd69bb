"""How training code of one's own freezes what an answer recommends: lines of PyTorch that need no Permafrost."""

from __future__ import annotations

import json

from trials.models.family import MODEL_FAMILIES
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
