"""The built documentation: no warning, nothing from another machine, and everything of the code in the reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import reference
from orchestrator.store.schema import TABLES
from tests.examples import each

CHECKOUT = Path(__file__).parents[2]
# What a browser fetches by itself, unlike the target of a link.
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)|<link\b[^>]*\bhref="([^"]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    build = ["-m", "mkdocs", "build", "--strict", "--quiet", "-f", "docs/mkdocs.yml", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, *build], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.slow
def test_no_page_fetches_from_another_machine(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    fetched = {url for page in pages for pair in FETCHED.findall(page.read_text(encoding="utf-8")) for url in pair}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert len(pages) > 10
    assert [url for url in fetched if re.match(r"(https?:)?//", url)] == []
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles) == []


def test_every_column_of_the_store_is_in_the_reference_with_its_meaning() -> None:
    page = reference.tables_page()
    columns = [f"| `{field.name}` | `{field.type}` |" for schema in TABLES.values() for field in schema]
    assert [column for column in columns if column not in page] == []
    assert "` |  |" not in page


@each("name", reference.FILES)
def test_every_key_of_a_file_is_in_the_reference_with_its_meaning(name: str) -> None:
    page = reference.file_page(name)
    models = reference.models_of(reference.FILES[name][1]).values()
    unexplained = [f"{m.__name__}.{key}" for m in models for key in m.model_fields if key not in reference.described(m)]
    assert [key for model in models for key in model.model_fields if f"| `{key}` |" not in page] == []
    assert name == "study" or unexplained == []
