"""F1 over entities as conlleval computes it, the script of the shared tasks from CoNLL-2000 on.

It is more lenient than `trials.metrics.spans`: an `I-` begins a span where it continues none, i.e. at the start of a
sentence, after `O` and after another type (E. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 Shared
Task: Chunking", 2000). Most published F1 of CoNLL-2003 is this one.
"""

from __future__ import annotations

from trials.metrics import pseudo_values
from trials.metrics.metric import TaskMetric, register
from trials.metrics.spans import span_counts

register(
    TaskMetric(
        "conlleval_f1",
        label="conlleval F1",
        about="Of whole entities as the script conlleval reads IOB tags, where an I- may begin an entity: F1.",
        group="span",
        outputs=frozenset({"spans"}),
        function=lambda split: float(pseudo_values.micro_f1(span_counts(split, lenient=True).sum(axis=0))),
        contributions=lambda split: pseudo_values.counted(span_counts(split, lenient=True), pseudo_values.micro_f1),
    )
)
