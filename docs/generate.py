"""What MkDocs runs while it builds: adds the pages that are generated from the code, and the pictures of the sweeps."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # MkDocs loads this file by its path
    sys.path.insert(0, str(ROOT))

from docs import reference, repository_pages  # noqa: E402

PICTURES = ("starter.svg", "starter_depth.png", "starter_overview.png")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that a person wrote, and the generated ones."""
    for path, text in {**reference.pages(), **repository_pages.pages()}.items():
        files.append(File.generated(config, path, content=text))
    for name in PICTURES:
        files.append(File.generated(config, f"pictures/{name}", abs_src_path=str(ROOT / "configs" / "sweeps" / name)))
    return files
