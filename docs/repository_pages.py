"""Pages made of files that stand elsewhere in the repository: README and its neighbours, and the tutorial notebook."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = "docs/pages/"
# File of the repository -> page.
ADOPTED = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "about/architecture.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "CHANGELOG.md": "about/changelog.md",
    "docker/README.md": "about/containers.md",
}
NOTEBOOK = "docs/tutorial.ipynb"
_PLACES = ADOPTED | {
    NOTEBOOK: "notebook.md",
    "configs/sweeps/starter.svg": "pictures/starter.svg",
    "configs/sweeps/starter_overview.png": "pictures/starter_overview.png",
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\n)*)\]\(([^)\s]+)\)")


def adopted(path: str) -> str:
    """A file of the repository as a page: its links lead to pages, or become plain text where there is no page."""
    page = posixpath.dirname(ADOPTED[path])

    def rewritten(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if re.match(r"\w+:|#", target):
            return link[0]
        name, hash_sign, anchor = target.partition("#")
        place = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))
        if place is None:
            return str(text)
        return f"{picture}[{text}]({posixpath.relpath(place, page or '.')}{hash_sign}{anchor})"

    return _LINK.sub(rewritten, (ROOT / path).read_text(encoding="utf-8"))


def page_of(path: str) -> str | None:
    """The page that shows a file of the repository, or None."""
    return path.removeprefix(PAGES) if path.startswith(PAGES) else _PLACES.get(path)


def notebook_page() -> str:
    """The cells of the tutorial notebook: text as it stands, code as Python."""
    cells = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    parts = ["".join(cell["source"]) for cell in cells]
    shown = [
        part if cell["cell_type"] == "markdown" else f"```python\n{part}\n```"
        for cell, part in zip(cells, parts, strict=True)
    ]
    return "\n\n".join(shown) + f"\n\nThis page is `{NOTEBOOK}`; run it with `jupyter lab {NOTEBOOK}`.\n"


def pages() -> dict[str, str]:
    """Path and Markdown of each page."""
    return {place: adopted(path) for path, place in ADOPTED.items()} | {"notebook.md": notebook_page()}
