"""The verdict on a published number: its number of runs, the scale of the comparison and the margin."""

from __future__ import annotations

from orchestrator.analysis.replication import Replication, Runs, exact_replication, replication
from orchestrator.published.our_results import COUNTED, RELATIVE, SeedMean
from orchestrator.published.study import Published, Study
from orchestrator.published.study_parts import UNKNOWN

MARGIN = 0.01  # of scores: one point
TIME_MARGIN = 0.05  # of the share of time saved, which depends on the device as well
COUNT_MARGIN = 0.01  # of a count, as a share of it
STEP = 0.001  # shares are published to a tenth of a point


def verdict(study: Study, result: Published, ours: SeedMean, margin: float = MARGIN) -> Replication:
    """Whether ours reproduces a published number.

    A study that does not state its number of runs is taken to have made one.

    Args:
        ours: The mean of our runs, as `our_results.measure` gives it for the same metric.
        margin: Largest difference of scores that still counts as the same, 0.01 is a point.
    """
    metric, figure = study.metrics[result.metric], result.figure
    n = study.protocol.n_seeds
    theirs = Runs(1 if n == UNKNOWN else n, figure.low, figure.high, figure.std)
    if metric.columns[0] in COUNTED:
        allowed = margin if metric.unit == "share" else COUNT_MARGIN * max(abs(figure.low), abs(figure.high))
        return exact_replication(ours.mean, theirs, margin=allowed)
    found = Runs(ours.n, ours.mean, ours.mean, ours.std)
    if metric.columns[0] in RELATIVE:
        return replication(found, theirs, margin=TIME_MARGIN, step=STEP, scale="log saved")
    return replication(found, theirs, margin=margin, step=STEP)
