"""Every page, in the order of the navigation and of a report; a new page is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards.views import answer, compare, errors, savings, scores, training, trials
from dashboards.views.kit.part import ItemPage, Part, View

_ORDERED = (
    answer.VIEW,
    scores.VIEW,
    training.VIEW,
    savings.VIEW,
    errors.VIEW,
    trials.VIEW,
    compare.VIEW,
)
_views = {view.path: view for view in _ORDERED}
_parts: dict[str, Part[Any]] = {part.name: part for view in _ORDERED for part in view.parts}
VIEWS: Mapping[str, View] = _views
PARTS: Mapping[str, Part[Any]] = _parts
_item_pages = {view.item_page.prefix: view.item_page for view in _ORDERED if view.item_page}
ITEM_PAGES: Mapping[str, ItemPage] = _item_pages


def register_view(view: View) -> View:
    """Add a page of a plug-in, behind ours; its parts are in the report, too. The same page may be registered again.

    Raises:
        ValueError: The address or the name of a part is that of another page.
    """
    taken = {part.name for path, other in _views.items() for part in other.parts if path != view.path}
    if view.path in {ours.path for ours in _ORDERED} or taken & {part.name for part in view.parts}:
        raise ValueError(
            f"view {view.path!r}: another page has its address or a part of its name. Choose another name."
        )
    _views[view.path] = view
    _parts.update({part.name: part for part in view.parts})
    _item_pages.update({view.item_page.prefix: view.item_page} if view.item_page else {})
    return view
