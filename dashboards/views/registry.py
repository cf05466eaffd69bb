"""Every view, in the order of the navigation and of a report; a new view is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards.views import (
    across,
    choose,
    compare,
    cost,
    curves,
    depth,
    layers,
    matters,
    overview,
    report_page,
    tags,
    trials,
)
from dashboards.views.part import Part
from dashboards.views.view import ItemPage, View

_ORDERED = (
    overview.VIEW,
    depth.VIEW,
    curves.VIEW,
    cost.VIEW,
    choose.VIEW,
    matters.VIEW,
    across.VIEW,
    layers.VIEW,
    tags.VIEW,
    trials.VIEW,
    compare.VIEW,
    report_page.VIEW,
)
VIEWS: Mapping[str, View] = {view.path: view for view in _ORDERED}
PARTS: Mapping[str, Part[Any]] = {part.name: part for view in _ORDERED for part in view.parts}
ITEM_PAGES: Mapping[str, ItemPage] = {view.item_page.prefix: view.item_page for view in _ORDERED if view.item_page}
