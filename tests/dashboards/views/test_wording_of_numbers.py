"""Numbers in the text of every page and of the report: nouns agree, p is never 0, a percent sign stands once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from plotly.io.json import to_json_plotly

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection
from dashboards.data.tables import shown
from dashboards.report.write import write_report
from dashboards.views.kit.components import part_card, table
from dashboards.views.kit.part import compute
from dashboards.views.kit.theme import LIGHT
from dashboards.views.registry import ITEM_PAGES, PARTS, VIEWS
from orchestrator.store import ResultStore
from tests.dashboards import stores
from tests.dashboards.stores import STRATEGIES, Invented, specs, write_store
from tests.dashboards.views.made import selected

FAULTS = {
    "a plural after 1": r"(?<![\w.,])1 (?!(?:is|as|has|was|plus|minus|versus|across)\b)"
    r"(?:[a-z]+ )?(?!(?:is|as|has|was)\b)[a-z]+s\b",
    "a plural after any number": r"%\{(?:[xyz]|customdata(?:\[\d\])?)\} (?:trials|seeds|pairs|epochs)",
    "a p of 0": r"\bp(?:-value)?\s*[=:]?\s*0(?:\.0+)?(?![.\d])",
    "two percent signs": r"%\s*\(%\)|\d %\s*%",
    "no trainable parameter": r"trainable[^,;|<]{0,16}[:=& ]\s*0(?:\.0+)?(?![.\d])",
}


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from _texts(inner)
    elif isinstance(node, str):
        yield node


def _of_page(component: object) -> set[str]:
    return set(_texts(json.loads(to_json_plotly(component))))


def _pages(selection: Selection) -> Iterator[tuple[str, str]]:
    """Everything that the dashboard shows, by where."""
    for part in PARTS.values():
        drawn = compute(part, selection, LIGHT)
        for text in _of_page([part_card(part, drawn), table(drawn)]):
            yield part.name, text
        for column in drawn.table.columns:
            values = (shown(value, str(column)) for value in drawn.table[column])
            yield from ((part.name, f"{column} {value}") for value in dict.fromkeys(values))
    for view in VIEWS.values():
        for text in _of_page(view.content(selection)) if view.content else ():
            yield view.path, text
    for prefix, page in ITEM_PAGES.items():
        for text in _of_page(page.build(selection.snapshot, selection.trials["trial_id"][0], LIGHT)):
            yield prefix, text


def _files(store: ResultStore, folder: Path) -> Iterator[tuple[str, str]]:
    """The text of the report's files, without programs and markup."""
    for file in write_report(Frames(store), PageQuery(sweep="made-up"), folder, pictures=False).files:
        text = file.read_text(encoding="utf-8")
        code = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
        yield file.name, re.sub(r"<[^>]*>", "|", code.sub("", text)) if file.suffix == ".html" else text


def _faults(found: Iterator[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [
        (where, what, text[max(0, match.start() - 40) : match.end() + 20])
        for where, text in found
        for what, pattern in FAULTS.items()
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize(
    ("seeds", "strategies"),
    [((0, 1, 2, 3), (*STRATEGIES[:2], STRATEGIES[-1])), ((0,), STRATEGIES[:2])],
    ids=["many trials", "one seed"],
)
def test_every_page_and_file_counts_in_plain_words(
    seeds: Sequence[int],
    strategies: Sequence[tuple[str, tuple[int, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "HEAD_PARAMS", 2192)  # all that is trained where everything is frozen: 0.00 million
    trials = specs(seeds=seeds, train_sizes=(200,), strategies=strategies, embeddings=(False, True))
    store = write_store(tmp_path / "store", trials, Invented(noise=0.0002))
    assert _faults(_pages(selected(store))) == []
    assert _faults(_files(store, tmp_path / "report")) == []
