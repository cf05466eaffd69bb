"""The dashboard's figures in a notebook.

from dashboards.notebook import figure
figure(store="results")                                   # the depth curve of the newest sweep
figure("curves-score", "results", "?sweep=starter&size=800")
"""

from __future__ import annotations

import plotly.graph_objects as go

from dashboards.data.frames import Frames
from dashboards.report.files import drawn_part
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.store import ResultStore, open_store
from trials.errors import ConfigError
from trials.plugins.loading import load_installed


def figure(name: str = "depth-strip", store: str | ResultStore = DEFAULT_STORE, url: str = "") -> go.Figure:
    """A figure as a page shows it, for Plotly: a notebook draws it, and it can be changed and saved.

    Args:
        name: Of the figure, e.g. ``depth-strip``, ``answer-losses``, ``cost-savings``.
        store: The store or its address, as of `api.Launched`.
        url: The page's address, or its part from `?` on; the newest sweep without one.

    Raises:
        ConfigError: No figure has this name, or it is a table.
        NothingMatchedError: There is nothing to show.
        StoreError: The store cannot be read.
    """
    load_installed()
    drawn = drawn_part(Frames(open_store(store) if isinstance(store, str) else store), name, url).drawn
    if drawn.figure is None:
        raise ConfigError(f"{name} is a table. `permafrost export figure {name}` writes it.")
    return go.Figure(drawn.figure)
