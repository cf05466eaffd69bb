"""Notes on how often frozen layers are computed: at every step, or once."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.config.quantities import counted
from orchestrator.sweeps.notes.note import NOTES, Noted
from trials.models.family import MODEL_FAMILIES
from trials.prefix.rule import cached_depth, is_worth_it, prefix_depth, why_not_cut
from trials.spec import TrialSpec


@NOTES.register("cuts")
def cuts(noted: Noted) -> Iterator[str]:
    """Whether the frozen layers of unregistered families are computed once or at every step."""
    found: dict[tuple[str, str, str | None], list[int]] = {}
    unregistered = (spec for spec in noted.ahead if spec.model.family not in MODEL_FAMILIES and is_worth_it(spec))
    for spec in sorted(unregistered, key=prefix_depth):
        if depth := prefix_depth(spec):
            depths = found.setdefault((spec.model.name, spec.model.family, why_not_cut(spec, depth)), [])
            depths += [depth] if depth not in depths else []
    for (model, family, reason), depths in found.items():
        at = f"{family!r} cut at layer {', '.join(map(str, depths))}"
        if reason is None:
            yield f"{model}: frozen layers are computed once, as {at} computes what the whole model does."
        else:
            yield f"{model}: frozen layers are computed at every step. For {at}, {reason}."


@NOTES.register("dropout")
def dropout(noted: Noted) -> Iterator[str]:
    """What dropout in frozen layers costs: their states are computed at every step, not once."""
    without = {
        spec: spec.model_copy(update={"frozen_dropout": False}) for spec in noted.ahead if spec.has_frozen_dropout
    }
    slowed = {spec: quick for spec, quick in without.items() if cached_depth(quick)}
    if slowed:
        work, least = (sum(map(_passes, some)) for some in (slowed, slowed.values()))
        yield (
            "frozen layers run with dropout, as in transformers.Trainer, so they are computed at every step: "
            f"about {work / least:.1f} times the work of `frozen_dropout: false` in {counted(len(slowed), 'trial')}. "
            "The two score differently."
        )


def _passes(spec: TrialSpec) -> int:
    """The training of a trial as passes of a sentence through one layer, forward or backward; the head is a layer."""
    n_layers, depth = spec.model.n_layers, spec.freeze.depth
    return (3 * (n_layers - depth) + depth - cached_depth(spec) + 1) * spec.optim.epochs * spec.train_size
