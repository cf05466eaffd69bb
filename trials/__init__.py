"""One trial: its spec, its training and evaluation, and the records it yields. Uses neither Ray nor Plotly."""

__version__ = "1.0.0"  # the only place of it; pyproject.toml reads it here

from trials.plugins import import_origins as import_origins  # from here on our packages are those beside this one
