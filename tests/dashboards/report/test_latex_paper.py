"""The tables of a report in a two-column paper, set by the LaTeX of the distribution."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.report.files import write_report
from tests.dashboards.stores import specs, write_store

NO_TEX = "no pdflatex on this machine; apt-get install texlive-latex-base"
PAPER = r"""\documentclass[10pt,twocolumn]{article}
\setlength{\textwidth}{455pt}\setlength{\columnsep}{17pt}\setlength{\textheight}{703pt}
\begin{document}\setlength{\hfuzz}{0pt}
"""  # columns of 219 pt


def _log(texts: Sequence[str], folder: Path) -> str:
    """What TeX says about a paper with these tables."""
    if shutil.which("pdflatex") is None:
        assert not os.environ.get("PERMAFROST_REQUIRE_TEX"), NO_TEX
        pytest.skip(NO_TEX)
    content = "\n".join(f"Text.\n{text}\\clearpage" for text in texts)
    (folder / "paper.tex").write_text(f"{PAPER}{content}\n\\end{{document}}\n", encoding="utf-8")
    for _ in range(2):  # the second time labels are known
        subprocess.run(
            ("pdflatex", "-interaction=nonstopmode", "paper.tex"), cwd=folder, capture_output=True, check=False
        )
    return (folder / "paper.log").read_text(encoding="latin-1")


@pytest.mark.slow
def test_every_table_of_a_report_fits_a_two_column_paper(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", specs(seeds=range(3)))
    written = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path / "out", pictures=False)
    tables = [path.read_text(encoding="utf-8") for path in written.files if path.suffix == ".tex"]
    log = _log(tables, tmp_path)
    assert len(tables) > 10
    assert re.findall(r"^(?:! .*|Overfull .*|.*too large for page.*|.*multiply.*)$", log, re.MULTILINE) == []
