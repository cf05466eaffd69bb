"""Settings that contradict each other, and numbers that no trial can have: each is refused with its reason."""

from __future__ import annotations

import math

from trials.freeze.rules import FreezingRule
from trials.settings import FreezeSpec, LoraSpec, ModelSpec, Recipe

MOST_EPOCHS = 10_000  # the papers have 3 to 200
MOST_EVALUATIONS = 100_000  # each is a pass over dev, and a row in the store that every reader loads
MOST_BATCH = 1 << 20  # sentences; no memory holds the activations of more
MOST_RANK = 1 << 14  # of an adapter; the widest encoders have fewer dimensions


def beyond_bounds(recipe: Recipe) -> list[tuple[str, str]]:
    """(setting, reason) of every number that is larger than a trial can have."""
    n_evaluations = math.ceil(min(min(recipe.optim.epochs, 10**18) / recipe.eval_every, 1e18))
    rank = 0 if recipe.lora is None else recipe.lora.rank
    found = (
        ("optim.epochs", recipe.optim.epochs, MOST_EPOCHS, "epochs"),
        ("optim.batch_size", recipe.optim.batch_size, MOST_BATCH, "sentences in a batch"),
        ("lora.rank", rank, MOST_RANK, "dimensions of an adapter"),
        ("eval_every", n_evaluations, MOST_EVALUATIONS, "evaluations"),
    )
    return [(key, f"{n:,} {what} are more than {most:,}, the most.") for key, n, most, what in found if n > most]


def conflicts(recipe: Recipe, freeze: FreezeSpec, model: ModelSpec) -> list[tuple[str, str]]:
    """(setting, reason) of every pair of settings that contradict each other."""
    conflicting = []
    everything = len(freeze.layers) == model.n_layers
    if recipe.thaw_every is not None and freeze.is_baseline:
        reason = "nothing is frozen, so nothing can be unfrozen. Leave it out, or give it with each freeze as `cases`."
        conflicting.append(("thaw_every", reason))
    if recipe.optim.layer_decay is not None and everything and freeze.embeddings and recipe.thaw_every is None:
        conflicting.append(("optim.layer_decay", "only the head is trained, so no layer has a learning rate."))
    if freeze.rule is not None:
        conflicting += [("freeze.rule", reason) for reason in _rule_conflicts(recipe, freeze.rule, model)]
    if recipe.lora is not None:
        conflicting += [
            ("lora", reason) for reason in _lora_conflicts(recipe.lora, freeze, everything, recipe.thaw_every)
        ]
    return conflicting


def _rule_conflicts(recipe: Recipe, rule: FreezingRule, model: ModelSpec) -> list[str]:
    refusal = rule.refusal(model.n_layers)
    reasons = [] if refusal is None else [refusal]
    if recipe.thaw_every is not None:
        reasons.append("it freezes layers while training, and `thaw_every` unfreezes them. Leave one out.")
    if recipe.lora is not None:
        reasons.append("it freezes the weights of layers, and adapters are trained in their place. Leave one out.")
    if rule.statistic == "gradients" and recipe.precision == "fp16":
        reasons.append("it adds gradients up, and in fp16 those of some steps overflow and are skipped. Use bf16.")
    return reasons


def _lora_conflicts(lora: LoraSpec, freeze: FreezeSpec, everything: bool, thaw_every: int | None) -> list[str]:
    reasons = []
    if lora.layers == "all" and freeze.layers:
        reasons.append("with `layers: all` every layer is trained by its adapter and none by its weights, so freezing "
                       "layers has no effect. Use `layers: unfrozen`, or freeze only the embeddings.")  # fmt: skip
    if lora.layers == "unfrozen" and everything:
        reasons.append("every layer is frozen, so none is left for adapters. Freeze fewer, or use `layers: all`.")
    if thaw_every is not None:
        reasons.append("adapters are added when a trial starts, which excludes `thaw_every`. Leave one out.")
    return reasons
