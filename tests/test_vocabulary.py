"""Plain words: phrases that readers stumbled over do not come back, neither in texts nor in names."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docker/README.md", "docs/tutorial.ipynb"),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs" / "pages").rglob("*.md"))),
)
# What readers stumbled over, as regular expressions of words, in strings, docstrings, comments and documents.
PHRASES = (
    r"a field a planned trial",
    r"eligible cell",
    r"look (it|one|a store|stores?) (over|through)",
    r"told from",
    r"\d (times )?of 5 within",
    r"put a setting over",
    r"launching again goes on",
    r"same command goes on",
    r"looks? whether this machine",
    r"ending says as what",
    r"only looks away",
    r"is there already",
    r"mend(s|ed|ing)? the",
    r"mend(s|ed|ing)? it",
    r"stands without its",
    r"\S+ taken for (\{|noun|propn)",
    r"of a sweep's file",
    r"without putting back",
    r"mistakes? (is|are) told",
    r"over \d+ of the steps",
    r"our mistake",
    r"nobody runs it",
    r"not set side by side",
    r"befell",
    r"litter",
    r"misfits?",
    r"goes? on with",
)
# Docstrings that say nothing of what they stand for.
EMPTY = re.compile(r'"""(in words|that of (one|all)|of (memory|an encoder|one|a trial))\."""', re.IGNORECASE)
NAMES = re.compile(r"told_of|misfits?|\w*litter\w*|NoPick|ToTheEnd|\w+_told", re.ASCII)
PHRASE = re.compile(rf"\b({'|'.join(PHRASES)})".replace(" ", r"[ #]*\s[\s#]*"), re.IGNORECASE)


def python_findings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what stands in strings, comments and names of a module."""
    text = path.read_text(encoding="utf-8")
    if not any(words.search(text) for words in (PHRASE, EMPTY, NAMES)):  # which spares taking nearly all files apart
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and NAMES.fullmatch(token.string):
            yield token.start[0], token.string
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            yield from text_findings(token.string, token.start[0])


def text_findings(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """(line, text) of the phrases of a text; one may go on in the next line, after a comment sign."""
    for match in (*PHRASE.finditer(text), *EMPTY.finditer(text)):
        yield first_line + text.count("\n", 0, match.start()), " ".join(match[0].split())


def files() -> list[Path]:
    modules = [
        path
        for root in ("orchestrator", "trials", "dashboards", "docs")
        for path in sorted((ROOT / root).rglob("*.py"))
    ]
    return [*modules, *sorted((ROOT / "configs").rglob("*.yaml")), *(ROOT / name for name in DOCUMENTS)]


def test_it_is_said_in_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in files()
        for line, text in (
            python_findings(path) if path.suffix == ".py" else text_findings(path.read_text(encoding="utf-8"))
        )
    ]
    assert found == []
