"""Settings that contradict each other: each pair is refused with its reason."""

from __future__ import annotations

from trials.settings import FreezeSpec, LoraSpec, ModelSpec, Recipe


def conflicts(recipe: Recipe, freeze: FreezeSpec, model: ModelSpec) -> list[tuple[str, str]]:
    """(setting, reason) of every pair of settings that contradict each other."""
    conflicting = []
    everything = len(freeze.layers) == model.n_layers
    if recipe.thaw_every is not None and freeze.is_baseline:
        reason = "nothing is frozen, so nothing can be unfrozen. Leave it out, or give it with each freeze as `cases`."
        conflicting.append(("thaw_every", reason))
    if recipe.optim.layer_decay is not None and everything and freeze.embeddings and recipe.thaw_every is None:
        conflicting.append(("optim.layer_decay", "only the head is trained, so no layer has a learning rate."))
    if recipe.lora is not None:
        conflicting += [
            ("lora", reason) for reason in _lora_conflicts(recipe.lora, freeze, everything, recipe.thaw_every)
        ]
    return conflicting


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
