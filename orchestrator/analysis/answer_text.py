"""An answer in words, as the terminal, notebooks and trackers show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.analysis.layer_strip import layer_strip, strip_and_word
from trials.escaping import escaped

if TYPE_CHECKING:  # loads pandas
    from orchestrator.analysis.answer import Answer

NO_ANSWER = "no answer: the sweep has no setting that freezes anything beside a baseline."


def lines_of(each: Answer) -> list[str]:
    """One answer in lines: the layer strip of what is recommended, the sentence, the runner-up."""
    strip = layer_strip(each.freeze, each.n_layers) if each.freeze else ""
    second = strip_and_word(each.runner_up, each.n_layers) if each.runner_up and each.decided else ""
    return [*([strip] if strip else []), escaped(each.sentence), *([f"Runner-up: {second}."] if second else [])]
