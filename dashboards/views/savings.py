"""Savings: what does freezing save? The share of each cost that each setting saves of its baseline's."""

from __future__ import annotations

from dashboards.views.kit.part import View
from dashboards.views.shares_saved import SAVINGS, TABLE

VIEW = View(
    "/savings",
    "Savings",
    "What does freezing save?",
    (SAVINGS, TABLE),
)
