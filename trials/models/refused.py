"""Families whose layers cannot be frozen one by one, with the reason for the error message."""

from __future__ import annotations

from trials.models.family import REFUSED

REFUSED["albert"] = "all of ALBERT's layers share one set of weights, so freezing one freezes them all"
REFUSED["funnel"] = "Funnel shortens its input between layers, so its layers have no state for every subword"
REFUSED["longformer"] = (
    "Longformer pads every input to a multiple of its attention window, usually 512 subwords, so each costs as much as "
    "a long one; ModernBERT reads long inputs without this"
)
for _family in ("t5", "mt5", "longt5"):
    REFUSED[_family] = (
        "the first layer of T5's encoder holds the relative positions of all layers, so freezing it freezes a part of "
        "every other one"
    )
REFUSED["xlnet"] = "XLNet is trained with padding on the left, but inputs are padded on the right here"
REFUSED["bros"] = "BROS reads the place of each word on a page, which plain text does not have"
REFUSED["canine"] = (
    "CANINE reads characters and shortens its input between layers, so its layers have no state for every subword"
)
REFUSED["layoutlmv2"] = "LayoutLMv2 reads the image of a page, which plain text does not have"
REFUSED["reformer"] = "Reformer trains only on inputs of one fixed length, usually 4096 subwords or more"
REFUSED["xmod"] = "X-MOD has adapters for each language and must be told which one to use, which trials do not"
