"""A study's own tables and figures: which numbers each shows, and in which arrangement."""

from __future__ import annotations

from typing import Literal

from trials.settings import Frozen

Kind = Literal["table", "statistics", "bars", "epochs", "scatter", "depths", "runs", "steps"]


class Exhibit(Frozen):
    """A table or figure of a study, drawn again with ours beside.

    Attributes:
        id: Part of file names.
        title: Its number and caption in short.
        kind: The arrangement. ``table``: a row per freeze, a column per metric. ``statistics``: a row per train size
            and freeze with mean, median, std, min and max over the seeds. ``bars``: a bar per freeze and metric.
            ``epochs``: a line per freeze over epochs. ``scatter``: the second metric against the first, a point per
            freeze. ``depths``: lower and upper layers as lines over the number of frozen layers, a panel per metric.
            ``runs``: a dot per run by freeze, a panel per train size. ``steps``: the training loss of every step, a
            panel per freeze.
        groups: The tables of `results` whose corpus, train size and rows it has.
        metrics: What it shows; by default the metrics of these tables.
    """

    id: str
    title: str
    kind: Kind
    groups: tuple[str, ...]
    metrics: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a table, not a figure."""
        return self.kind in ("table", "statistics")
