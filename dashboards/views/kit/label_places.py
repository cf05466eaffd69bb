"""Where names stand beside marks, so that none covers another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.analysis.freeze_names import FROZEN, TRAINED

_LETTER, _SQUARE, _LINE, _MARKER = 7.0, 11.5, 16, 8  # pixels
_SIDES = ("right", "left", "center")
Box = tuple[float, float, float, float]  # left, right, bottom, top


def beside_marks(
    at: Sequence[tuple[float, float]],
    names: Sequence[str],
    room: Box,
    order: Sequence[int],
    lines: Sequence[Box] = (),
) -> list[str]:
    """Where the name of each mark stands, as `textposition`; empty for one that would cover another mark or name.

    Args:
        at: Of the marks, in pixels.
        room: Of the panel.
        order: Those that are placed first.
        lines: What names may not cover, too.
    """
    taken: list[Box] = [(x - _MARKER, x + _MARKER, y - _MARKER, y + _MARKER) for x, y in at] + list(lines)
    positions = [""] * len(at)
    for n in order:
        for place, box in _places_around(*at[n], label_width(names[n])):
            fits = box[0] >= room[0] and box[1] <= room[1] and box[2] >= room[2] and box[3] <= room[3]
            if fits and not any(_overlap(box, other) for other in taken):
                positions[n] = place
                taken.append(box)
                break
    return positions


def label_width(label: str) -> float:
    """Pixels that a label takes in a figure; the squares of a layer strip are wider than letters."""
    squares = sum(label.count(square) for square in (FROZEN, TRAINED))
    return _SQUARE * squares + _LETTER * (len(label) - squares)


def _places_around(x: float, y: float, wide: float) -> Iterator[tuple[str, Box]]:
    """The places beside, above and below a marker, those first that its intervals do not cross."""
    starts = {"right": x + _MARKER / 2, "left": x - _MARKER / 2 - wide, "center": x - wide / 2}
    for side in _SIDES:
        for up, bottom in (("top", y + _MARKER), ("bottom", y - _MARKER - _LINE)):
            yield f"{up} {side}", (starts[side], starts[side] + wide, bottom, bottom + _LINE)


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]
