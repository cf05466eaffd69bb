"""Colours: one for a setting in both themes, told from the paper of each."""

from __future__ import annotations

import pytest

from dashboards.views.kit.drawing import DARK, LIGHT, Look


def _luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_have_three_to_one_and_text_has_four_and_a_half(look: Look) -> None:
    depths = [look.depth(depth, n) for n in (2, 6, 12, 24, 48) for depth in range(n + 1)]
    lines = [look.line(number) for number in range(6)]
    assert min(_contrast(colour, look.paper) for colour in [*depths, *lines]) >= 3
    assert min(_contrast(colour, look.paper) for colour in (look.text, look.muted)) >= 4.5


def test_a_setting_has_one_colour_in_both_themes_and_depths_differ() -> None:
    light, dark = ([look.depth(depth, 12) for depth in range(13)] for look in (LIGHT, DARK))
    assert light == dark
    assert len(set(light)) == 13
