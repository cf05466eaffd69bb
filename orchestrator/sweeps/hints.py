"""What was probably meant by a setting that is not valid: the line to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from orchestrator.config.yaml_document import KeyPath, SettingFault, model_in, shortened
from trials.draft import TrialDraft

_GREATER: dict[tuple[KeyPath, str], str] = {
    (("resources", "gpus"), "less_than_equal"): "A trial trains on one GPU; several run on several."
}
MAX_SEEDS = 20  # in a line that lists them


def with_hint(path: KeyPath, fault: SettingFault) -> str:
    """The text of a fault, with the line that does what was meant where that can be told.

    Args:
        path: The place of the fault in the sweep file.
    """
    if fault.kind == "extra_forbidden":
        return _elsewhere(path) or fault.text
    hint = _several(path, fault) or _replicates(path, fault) or _GREATER.get((path, fault.kind))
    return f"{fault.text.removesuffix('.')}. {hint}" if hint else fault.text


def _elsewhere(path: KeyPath) -> str:
    """Where a key belongs that a trial has at another place, such as `lr` inside `optim`."""
    key = next((part for part in reversed(path) if isinstance(part, str)), "")  # of a choice, its key
    homes = [home for home in _paths(TrialDraft) if home.split(".")[-1] == key]
    is_loose = len(path) == 1 or (path[0] in ("trial", "space") and len(path) <= 3)
    if not is_loose or len(homes) != 1:
        return ""
    if path[0] == "space":
        return f"is `{homes[0]}` of a trial. Write it as `space: {{{homes[0]}: [...]}}`."
    return f"is a setting of a trial. Write it as `trial.{homes[0]}`."


def _paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield before + name
        if (inside := model_in(field.annotation)) is not None and not before:
            yield from _paths(inside, f"{name}.")


def _several(path: KeyPath, fault: SettingFault) -> str:
    """How to try each value of a list that stands where one value is meant."""
    if not isinstance(fault.value, list) or not fault.value or path[0] not in ("trial", "space"):
        return ""
    values = shortened(f"[{', '.join(map(str, fault.value))}]")
    if isinstance(path[-1], int):
        return ""
    if path[0] == "space":
        return f"To try each value, write `{path[-1]}: {{choice: {values}}}`."
    return f"To try each value, write `space: {{{'.'.join(map(str, path[1:]))}: {values}}}`."


def _replicates(path: KeyPath, fault: SettingFault) -> str:
    """The seeds that a bare number asks for."""
    n = fault.value
    if path != ("seeds",) or isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_SEEDS:
        return ""
    return f"For {n} replicates, write `seeds: [{', '.join(map(str, range(n)))}]`."
