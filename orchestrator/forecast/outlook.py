"""What may become of a trial, in sentences; the figures are of `orchestrator.forecast.curve`."""

from __future__ import annotations

from orchestrator.forecast.curve import Outlook
from orchestrator.forecast.figure import Figure

WORTH = 0.001  # of a score: less is hardly worth an epoch


def end_sentence(found: Outlook | None) -> str:
    """The best score that a running trial will probably reach; empty where it is over or nothing is known."""
    if found is None or found.is_over:
        return ""
    best = found.best
    return (
        f"By epoch {found.epochs[-1]:g} its best score will probably be {100 * best.median:.2f} % "
        f"(80 %: {100 * best.low:.2f} to {100 * best.high:.2f}), told {found.source}."
    )


def more_sentence(found: Outlook | None) -> str:
    """What one epoch more than planned is worth; empty where not known."""
    if found is None or found.more is None:
        return ""
    worth = f"about {_points(found.more.median)} points (80 %: {_points(found.more.low)} to {_points(found.more.high)})"
    if not found.is_over:
        return f"Another epoch is worth {worth}: that of the same trial planned with one more."
    return f"{_verdict(found.more)}: {worth}, told {found.source}."


def _verdict(more: Figure) -> str:
    if more.low > 0 and more.median >= WORTH:
        return "Another epoch would likely have helped"
    if more.high < WORTH:
        return "Another epoch would hardly have helped"
    return "Another epoch might have helped"


def _points(share: float) -> str:
    """In percentage points with their sign: `+0.1`; no sign at zero."""
    shown = f"{100 * share:+.1f}"
    return "0.0" if float(shown) == 0 else shown
