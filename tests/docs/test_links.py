"""Documents as they are read on a forge: each link leads to a file, each anchor to a heading, and nothing is raw."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from docs import findings, reference
from tests.docs.snippets import CHECKOUT, DOCUMENTS, PAGES, needs_extras
from tests.examples import each

_LINK = re.compile(r"!?\[[^\[\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ALL = sorted({*DOCUMENTS, *CHECKOUT.glob("*.md")})


def prose(document: Path) -> str:
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """The anchors of its headings, as forges and MkDocs make them."""
    titles = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@each("document", ALL)
def test_every_link_leads_to_a_file_of_the_repository_and_to_a_heading_of_it(document: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(document)):
        name, _, anchor = target.partition("#")
        place = (document.parent / name).resolve() if name else document
        if re.match(r"\w+:", target):
            continue
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            broken.append(target)
    assert broken == []


def test_what_documents_link_is_in_the_repository() -> None:
    kept = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()
    linked = {
        str((document.parent / target.partition("#")[0]).resolve().relative_to(CHECKOUT))
        for document in ALL
        for target in _LINK.findall(prose(document))
        if not re.match(r"\w+:|#", target)
    }
    assert {path for path in linked if (CHECKOUT / path).is_file()} - set(kept) == set()


def test_no_document_has_a_directive_that_only_a_site_generator_reads() -> None:
    assert [path for path in ALL if re.search(r"--8<--|\{\{ *\w|^!!! ", prose(path), re.MULTILINE)] == []


@needs_extras
def test_the_reference_is_what_the_code_says() -> None:
    stale = [path for path, text in reference.pages().items() if (PAGES / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run python -m docs.reference"


@pytest.mark.slow
def test_the_findings_are_what_the_shipped_trials_say() -> None:
    assert (PAGES / findings.PAGE).read_text(encoding="utf-8") == findings.page(), "run python -m docs.findings"
