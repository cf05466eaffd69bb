"""The expected end of a trial in sentences, from the figures of `orchestrator.forecast.curve`."""

from __future__ import annotations

from orchestrator.config.quantities import points
from orchestrator.forecast.curve import Outlook
from orchestrator.forecast.figure import Figure

WORTH = 0.001  # a smaller gain in score is hardly worth an epoch


def end_sentence(expected: Outlook | None) -> str:
    """The expected best score of a running trial; empty if it is over or nothing is known."""
    if expected is None or expected.is_over:
        return ""
    best = expected.best
    return (
        f"Expected best score by epoch {expected.epochs[-1]:g}: {points(best.median)} points "
        f"(80 % interval {points(best.low)} to {points(best.high)}), estimated {expected.source}."
    )


def more_sentence(expected: Outlook | None) -> str:
    """The expected gain of one epoch more than planned; empty if unknown."""
    if expected is None or expected.more is None:
        return ""
    more = expected.more
    worth = f"about {_signed(more.median)} points (80 % interval {_signed(more.low)} to {_signed(more.high)})"
    if not expected.is_over:
        return f"Planning one more epoch would gain {worth}."
    return f"{_verdict(more)}: {worth}, estimated {expected.source}."


def _verdict(more: Figure) -> str:
    if more.low > 0 and more.median >= WORTH:
        return "Another epoch would likely have helped"
    if more.high < WORTH:
        return "Another epoch would hardly have helped"
    return "Another epoch might have helped"


def _signed(share: float) -> str:
    """Points with their sign: `+0.1`; no sign at zero."""
    shown = f"{100 * share:+.1f}"
    return "0.0" if float(shown) == 0 else shown
