"""Control labels: a probe that also learns these has memorised words, not read the encoder.

J. Hewitt and P. Liang, "Designing and Interpreting Probes with Control Tasks" (EMNLP 2019): every word type gets a
label at random, from the labels' own distribution, and keeps it wherever it occurs. The selectivity of a probe is its
accuracy on the task less that on the control task.

Here a word's type is its subwords. A text has no type that occurs again, so its control label is that of its first
subword: a deviation from the paper, which has tasks over words only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from trials.seeding import numpy_stream
from trials.tasks.task import Example

Type = tuple[int, ...]


def types_of(example: Example, specials: Collection[int], *, of_words: bool) -> list[Type]:
    """The type of each place of an example; empty for a word without a subword."""
    ids = example.ids.tolist()
    if not of_words:
        return [next(((i,) for i in ids if i not in specials), ())]
    starts = example.at.tolist()
    valid_starts = sorted(at for at in starts if at >= 0)
    ends = dict(zip(valid_starts, [*valid_starts[1:], len(ids)], strict=True))
    return [tuple(i for i in ids[at : ends[at]] if i not in specials) if at >= 0 else () for at in starts]


def control_labels(types: Sequence[Sequence[Type]], gold: np.ndarray, seed: int) -> list[np.ndarray]:
    """A control label for every place of several splits.

    Args:
        types: The types of each split's places.
        gold: (places,) labels, or numbers, from whose distribution they are drawn.
        seed: Of the draw; which label a type gets depends on nothing else but the set of types.
    """
    every = sorted({type_ for split in types for type_ in split})
    drawn = numpy_stream(seed, "control labels").choice(gold, size=len(every))
    label = dict(zip(every, drawn.tolist(), strict=True))
    return [np.array([label[type_] for type_ in split], dtype=gold.dtype) for split in types]
