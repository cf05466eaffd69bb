"""Datasets of the model hub at a commit, through the hub's own libraries and cached as JSON lines (`hub`).

The rows are written canonically: a digest depends on them, and not on a library's version, as that of Parquet would.
"""

from __future__ import annotations
