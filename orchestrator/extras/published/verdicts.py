"""The verdict on a published number: its number of runs, the scale of the comparison and the margin."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.extras.published.our_results import COUNTED, RELATIVE, SeedMean
from orchestrator.extras.published.protocols import other_device
from orchestrator.extras.published.replication import Replication, Runs, exact_replication, replication
from orchestrator.extras.published.study import UNKNOWN, Published, Study

MARGIN = 0.01  # of scores: one point
TIME_MARGIN = 0.05  # of the share of time saved, on one device
COUNT_MARGIN = 0.01  # of a count, as a share of it
STEP = 0.001  # shares are published to a tenth of a point


def verdict(
    study: Study, result: Published, ours: SeedMean, devices: Sequence[str], margin: float = MARGIN
) -> Replication:
    """Whether ours reproduces a published number.

    A study that does not state its number of runs is taken to have made one. A share of time depends on the device and
    is judged on that of the study only.

    Args:
        ours: The mean of our runs, as `our_results.measure` gives it for the same metric.
        devices: Where they ran.
        margin: Largest difference of scores that still counts as the same, 0.01 is a point.
    """
    metric, figure = study.metrics[result.metric], result.figure
    n = study.protocol.n_seeds
    theirs = Runs(1 if n == UNKNOWN else n, figure.low, figure.high, figure.std)
    if metric.columns[0] in COUNTED:
        allowed = margin if metric.unit == "share" else COUNT_MARGIN * max(abs(figure.low), abs(figure.high))
        return exact_replication(ours.mean, theirs, margin=allowed)
    our_runs = Runs(ours.n, ours.mean, ours.mean, ours.std)
    if metric.columns[0] in RELATIVE:
        if differs := other_device(study.protocol, devices):
            return Replication(
                "cannot tell", None, None, TIME_MARGIN, f"a share of time depends on the device: {differs}"
            )
        return replication(our_runs, theirs, margin=TIME_MARGIN, step=STEP, scale="log saved")
    return replication(our_runs, theirs, margin=margin, step=STEP)
