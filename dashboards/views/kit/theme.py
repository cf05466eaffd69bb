"""How figures look in the light and the dark theme: colours, symbols, dashes, and the layout that all share.

Depth is ordered, from blue to ochre, in the same colours in both themes. Strategies are not ordered and have Okabe
and Ito's colours, each with a symbol and a dash of its own, so that colour is never the only code. The baseline has the
colour of the text.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trials.escaping import html
from trials.freeze.strategies import LAYERS, TEXT_COLOUR, look_of

# For every figure, on a page and in a file. By default plotly.js 4 offers to upload the figure.
PLOTLY_CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"],
    "responsive": True,
}
Figure = dict[str, Any]  # as plotly.js takes it: {"data": [...], "layout": {...}}

# Okabe & Ito, "Color Universal Design" (2008), as are the colours of our strategies; too pale ones are darkened.
_SETS = ("#B07C00", "cross", "longdash")  # of explicit sets of layers
_OTHERS = (("#3A8FC7", "star", "longdashdot"), ("#8C6BB1", "hexagon", "dash"), ("#B5653A", "pentagon", "dot"))
# From blue over violet and red to ochre, in steps of luminance: 3:1 or more against the paper of both themes.
_DEPTHS = ("#1178DF", "#7963F2", "#A83FD6", "#D6229D", "#E23A5F", "#DC5D08", "#BC7E10")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
STATES = {
    "completed": ("completed", "#2E7D32", "✓"),
    "running": ("running", "#0072B2", "▶"),
    "planned": ("planned", "#9AA5B1", "·"),
    "missing": ("missing", "#C9CED6", "○"),
    "pruned": ("pruned", "#B07C00", "p"),
    "diverged": ("diverged", "#D55E00", "∞"),
    "out_of_memory": ("out of memory", "#A33B00", "m"),
    "lost": ("lost", "#8C6BB1", "l"),
    "unavailable": ("unavailable", "#8C6BB1", "u"),
    "failed": ("failed", "#C62828", "✗"),
}


@dataclass(frozen=True)
class Look:
    """Colours of one theme.

    Attributes:
        text, muted: Colours of text; `text` is the colour of the baseline, too.
        paper, grid: Colours of the background and its grid lines.
        narrow: Whether the screen is a phone's, where panels stand below each other; other figures scroll sideways.
    """

    text: str
    muted: str
    paper: str
    grid: str
    dark: bool
    narrow: bool = False

    def depth(self, depth: int, n_layers: int) -> str:
        """Colour of a depth, another for each and the same in both themes."""
        place = (len(_DEPTHS) - 1) * min(depth, n_layers) / max(n_layers, 1)
        step = min(int(place), len(_DEPTHS) - 2)
        return _mixed(_DEPTHS[step], _DEPTHS[step + 1], place - step)

    @property
    def tolerated(self) -> str:
        """What lies within the tolerance."""
        return "rgba(0,158,115,0.18)"

    def strategy(self, name: str) -> tuple[str, str, str]:
        """Colour, symbol and dash of a strategy."""
        own = look_of(name)
        others = _SETS if name == LAYERS else _OTHERS[sum(map(ord, name)) % len(_OTHERS)]
        colour = self.text if own.colour == TEXT_COLOUR else own.colour or others[0]
        return colour, own.symbol or others[1], own.dash or others[2]

    def line(self, number: int) -> str:
        """Colour of one of several lines without an order; with more than six, symbols and dashes tell them apart."""
        colours = ["#0A7ABD", "#D55E00", "#009E73", "#C76BA0", "#B07C00", "#8C6BB1"]
        return colours[number % len(colours)]

    def scale(self) -> list[list[object]]:
        """A colour scale from 0 to 1 that starts with the background."""
        steps = (
            (self.paper, "#1F4E79", "#56B4E9", "#D6EEFF")
            if self.dark
            else (self.paper, "#9CC9E8", "#0072B2", "#00304D")
        )
        return [[n / (len(steps) - 1), colour] for n, colour in enumerate(steps)]

    def diverging(self) -> list[list[object]]:
        """A colour scale that is orange below zero, the background at zero, and blue above."""
        return [[0.0, "#D55E00"], [0.5, self.paper], [1.0, "#0072B2"]]


LIGHT = Look(text="#1A1B1E", muted="#495057", paper="#FFFFFF", grid="#DEE2E6", dark=False)
DARK = Look(text="#E9ECEF", muted="#B4BAC1", paper="#242424", grid="#3A3D42", dark=True)

# What a browser asks for: its colour scheme, and whether its screen is narrow.
LOOKS = {
    "light": LIGHT,
    "dark": DARK,
    "light-narrow": replace(LIGHT, narrow=True),
    "dark-narrow": replace(DARK, narrow=True),
}


def _mixed(first: str, second: str, share: float) -> str:
    """A colour between two, `#RRGGBB`."""
    pairs = ((int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)


def in_dark() -> dict[str, str]:
    """Colours of a light figure, and those that take their place in a dark one."""
    pairs = [(getattr(LIGHT, name), getattr(DARK, name)) for name in ("text", "muted", "paper", "grid")]
    pairs += [(str(LIGHT.scale()[n][1]), str(DARK.scale()[n][1])) for n in (1, 3)]
    return dict(pairs) | {rgba(before): rgba(after) for before, after in pairs}


def repainted(figure: Figure, look: Look) -> Figure:
    """A light figure in the colours of a theme."""
    if not look.dark:
        return figure
    colours = in_dark()
    text = re.sub("|".join(map(re.escape, colours)), lambda match: colours[match[0]], json.dumps(figure))
    return dict(json.loads(text))


def rgba(colour: str) -> str:
    """The beginning of a colour `#RRGGBB` with an opacity: `rgba(1,2,3`."""
    return f"rgba({','.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))}"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title, which includes the unit."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True, **more}


def layout(look: Look, *, x: Mapping[str, Any], y: Mapping[str, Any], height: int = 380, **more: Any) -> dict[str, Any]:
    """The layout that all figures share."""
    lines = {"gridcolor": look.grid, "linecolor": look.muted, "zerolinecolor": look.muted, "zeroline": False}
    return {
        "font": {"family": "system-ui, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": look.text},
        "paper_bgcolor": look.paper,
        "plot_bgcolor": look.paper,
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 56},
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": "system-ui, sans-serif"}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "xaxis": {**lines, **x},
        "yaxis": {**lines, **y},
        **more,
    }


def vertical_line(look: Look) -> dict[str, Any]:
    """A line across the figure at zero: no difference, nothing saved."""
    ink = {"color": look.text, "width": 1}
    return {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1, "line": ink}


def empty_figure(look: Look, reason: str) -> Figure:
    """A figure that only says why there is nothing to draw."""
    hidden = {"visible": False, "fixedrange": True}
    note = {
        "text": "<br>".join(html(line) for line in textwrap.wrap(reason, 60)),
        "xref": "paper",
        "yref": "paper",
        "x": 0.5,
        "y": 0.5,
        "showarrow": False,
    }
    return {"data": [], "layout": layout(look, x=hidden, y=hidden, height=130, annotations=[note])}


def dodge(seed_index: Sequence[int], n_seeds: int, width: float = 0.6) -> list[float]:
    """Horizontal offset of each dot, by the index of its seed: not random, so that a dot stays where it is."""
    return [(index + 0.5) / n_seeds * width - width / 2 if n_seeds > 1 else 0.0 for index in seed_index]
