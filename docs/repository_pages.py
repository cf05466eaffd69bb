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
PICTURES = ("starter.svg",)
_PLACES = ADOPTED | {NOTEBOOK: "notebook.md"} | {f"configs/sweeps/{name}": f"pictures/{name}" for name in PICTURES}
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)\s]+)\)")
_YAML = re.compile(r"^\[[^\[\]]+\]\(([^)\s]+\.yaml)\):?$", re.MULTILINE)  # a link on a line of its own


def adopted(path: str) -> str:
    """A file of the repository as a page."""
    return for_site((ROOT / path).read_text(encoding="utf-8"), path, ADOPTED[path])


def for_site(text: str, path: str, page: str) -> str:
    """The Markdown of a file, whose links are right on a forge, as a page of the site.

    A link leads to the page of what it names, or becomes plain text where there is none; a YAML file that has a line of
    its own is shown whole.

    Args:
        path: The file, relative to the repository.
        page: Its page, relative to the site.
    """
    beside = posixpath.dirname(path)

    def rewritten(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if re.match(r"\w+:|#", target):
            return link[0]
        name, hash_sign, anchor = target.partition("#")
        place = page_of(posixpath.normpath(posixpath.join(beside, name)))
        if place is None:
            return str(text)
        return f"{picture}[{text}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{hash_sign}{anchor})"

    def shown(link: re.Match[str]) -> str:
        return f"```yaml\n{(ROOT / beside / link[1]).read_text(encoding='utf-8')}```"

    return _LINK.sub(rewritten, _YAML.sub(shown, text))


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
