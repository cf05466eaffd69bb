"""What MkDocs runs while it builds: adds pages and pictures that stand elsewhere in the repository."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # MkDocs loads this file by its path
    sys.path.insert(0, str(ROOT))

from docs import repository_pages  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that a person wrote, those that stand elsewhere in the repository, and the pictures of the sweeps."""
    for path, text in repository_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    for name in repository_pages.PICTURES:
        files.append(File.generated(config, f"pictures/{name}", abs_src_path=str(ROOT / "configs" / "sweeps" / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page of this folder, with its links to the rest of the repository as links of the site."""
    source = page.file.src_uri
    is_written = (ROOT / repository_pages.PAGES / source).is_file()
    return repository_pages.for_site(markdown, repository_pages.PAGES + source, source) if is_written else markdown
