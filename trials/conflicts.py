"""Settings that contradict each other: each pair is refused with its reason."""

from __future__ import annotations

from trials.settings import FreezeSpec, LoraSpec, ModelSpec, Recipe


def conflicts(recipe: Recipe, freeze: FreezeSpec, model: ModelSpec) -> list[tuple[str, str]]:
    """(setting, reason) of every pair of settings that contradict each other."""
    found = []
    everything = len(freeze.layers) == model.n_layers
    if recipe.thaw_every is not None and freeze.is_baseline:
        reason = "nothing is frozen, so there is nothing to thaw. Leave it out, or give it with each freeze as `cases`."
        found.append(("thaw_every", reason))
    if recipe.optim.layer_decay is not None and everything and freeze.embeddings and recipe.thaw_every is None:
        found.append(("optim.layer_decay", "only the head learns, so there are no layers with rates of their own."))
    if recipe.lora is not None:
        found += [("lora", reason) for reason in _lora_conflicts(recipe.lora, freeze, everything, recipe.thaw_every)]
    return found


def _lora_conflicts(lora: LoraSpec, freeze: FreezeSpec, everything: bool, thaw_every: int | None) -> list[str]:
    found = []
    if lora.layers == "all" and freeze.layers:
        found.append("with `layers: all` every layer learns by its adapter and none by its weights, so freezing layers "
                     "says nothing. Use `layers: unfrozen`, or freeze only the embeddings.")  # fmt: skip
    if lora.layers == "unfrozen" and everything:
        found.append("every layer is frozen, so none is left for adapters. Freeze fewer, or use `layers: all`.")
    if thaw_every is not None:
        found.append("adapters are put on when a trial starts, so they do not go with `thaw_every`. Leave one out.")
    return found
