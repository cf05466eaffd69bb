"""The tables of a report in a two-column paper, set by the LaTeX of the distribution."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, select
from dashboards.report.files import write_report
from dashboards.report.paper import paper_figures, paper_files
from dashboards.report.pictures import FigureRenderer, find_browser
from tests.dashboards.stores import specs, write_store

NO_TEX = "no pdflatex on this machine; apt-get install texlive-latex-base"
PAPER = r"""\documentclass[10pt,twocolumn]{article}
\setlength{\textwidth}{455pt}\setlength{\columnsep}{17pt}\setlength{\textheight}{703pt}
\begin{document}\setlength{\hfuzz}{0pt}
"""  # columns of 219 pt
WIDE = r"""\documentclass[10pt,twocolumn]{article}\usepackage{graphicx}
\setlength{\textwidth}{500pt}\setlength{\columnsep}{20pt}\setlength{\textheight}{703pt}
\begin{document}\setlength{\hfuzz}{0pt}
"""  # a page of 6.9 inches, columns of 3.3


def _log(texts: Sequence[str], folder: Path, head: str = PAPER) -> str:
    """What TeX says about a paper with these tables."""
    if shutil.which("pdflatex") is None:
        assert not os.environ.get("PERMAFROST_REQUIRE_TEX"), NO_TEX
        pytest.skip(NO_TEX)
    content = "\n".join(f"Text.\n{text}\\clearpage" for text in texts)
    (folder / "paper.tex").write_text(f"{head}{content}\n\\end{{document}}\n", encoding="utf-8")
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a paper takes from one train size, by name: the table, and with a browser the figure in two widths."""
    store = write_store(tmp_path_factory.mktemp("paper") / "store", specs(seeds=range(5), train_sizes=(200,)))
    selection = select(Frames(store).refresh(), PageQuery(sweep="made-up"))
    made = dict(paper_files(selection, "s1", "a corpus, a model", "made up"))
    if find_browser():
        with FigureRenderer() as renderer:
            made |= {
                f.name: renderer.picture(f.figure, "pdf", f.name, "", f.width) for f in paper_figures(selection, "s1")
            }
    return made


def test_the_table_of_a_paper_has_a_row_a_setting_and_fits_a_column(files: dict[str, bytes]) -> None:
    text = files["tables/s1-paper.tex"].decode()
    assert r"\begin{table}" in text
    assert "frozen & n & score" in text
    assert text.count("$\\pm$") == 5
    rows = list(csv.DictReader(files["tables/s1-paper.csv"].decode().splitlines()))
    assert (rows[0]["frozen"], float(rows[0]["loss (points)"])) == ("none", 0)
    assert all(float(row["from (points)"]) < float(row["loss (points)"]) for row in rows[1:])


@pytest.mark.slow
def test_the_table_and_both_figures_fit_a_two_column_page(files: dict[str, bytes], tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("no Chromium")
    for name in ("s1-paper-column", "s1-paper-page"):
        (tmp_path / f"{name}.pdf").write_bytes(files[name])
    figures = r"""\begin{figure}\includegraphics{s1-paper-column.pdf}\end{figure}
\begin{figure*}\includegraphics{s1-paper-page.pdf}\end{figure*}"""
    log = _log([files["tables/s1-paper.tex"].decode() + figures], tmp_path, WIDE)
    assert re.findall(r"^(?:! .*|Overfull .*)$", log, re.MULTILINE) == []
