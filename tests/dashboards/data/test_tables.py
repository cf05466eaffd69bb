"""Frames as CSV, Markdown and LaTeX: what comes from data stays data in each of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dashboards.data.tables import as_csv, as_latex, as_markdown, cell_text
from orchestrator.analysis.freeze_names import FreezeName
from tests.examples import each
from tests.orchestrator.analysis.frames import freeze_of

FRAME = pd.DataFrame({"frozen": ["first 2", 'a,"b"'], "mean (%)": [88.25, float("nan")], "n": [3, 0]})


def test_markdown_keeps_a_cell_in_its_cell() -> None:
    assert (
        as_markdown(pd.DataFrame({"a|b": ["x\ny", "<script>"]}))
        == "| a\\|b |\n| --- |\n| x\\\\ny |\n| \\<script\\> |\n"
    )


def test_latex_has_booktabs_rules_and_right_aligned_numbers() -> None:
    lines = as_latex(FRAME.head(1), caption="50 % of it", label="tab:x").splitlines()
    assert [line.strip() for line in lines[lines.index("\\begin{table}") :]] == [
        "\\begin{table}", "\\centering", "\\small\\setlength{\\tabcolsep}{3pt}", "\\begin{tabular}{lrr}", "\\toprule",
        "frozen & mean (\\%) & n \\tabularnewline", "\\midrule", "first 2 & 88.25 & 3 \\tabularnewline",
        "\\bottomrule", "\\end{tabular}", "\\caption{50 \\% of it}", "\\label{tab:x}", "\\end{table}",
    ]  # fmt: skip


def test_latex_draws_the_layer_strip_with_rules() -> None:
    frame = pd.DataFrame({"frozen": pd.Series([FreezeName(freeze_of("first 1+E"), 2)], dtype=object)})
    text = as_latex(frame, caption="A caption.")
    assert r"\frozenlayer{}~\frozenlayer{}\trainedlayer{}~first 1 \tabularnewline" in text
    assert "Squares: embeddings, then layers; filled where frozen." in text


def test_latex_says_how_many_rows_it_leaves_out() -> None:
    text = as_latex(pd.DataFrame({"n": range(50)}), caption="Many.", most=2)
    assert "Many. The first 2 of 50 rows; the CSV has all." in text
    assert text.count("tabularnewline") == 3


def test_a_wide_table_takes_both_columns_and_repeats_its_settings_in_every_block() -> None:
    columns = {f"a column with a long heading {n}": [12.5] for n in range(20)}
    text = as_latex(pd.DataFrame({"frozen": pd.Series([FreezeName(freeze_of("first 1"), 6)], dtype=object), **columns}))
    assert "\\begin{table*}" in text
    assert text.count("~first 1 &") == text.count("\\begin{tabular}{l") > 1


def test_markdown_shows_the_squares_before_the_name_and_csv_the_name_alone() -> None:
    frame = pd.DataFrame({"frozen": pd.Series([FreezeName(freeze_of("first 1+E"), 2)], dtype=object)})
    assert "| ■ ■□ first 1 + embeddings |" in as_markdown(frame)
    assert as_csv(frame) == "frozen\r\nfirst 1 + embeddings\r\n"


@each("value, words", [
     (None, ""), (float("nan"), ""), (True, "yes"), (3, "3"), (134741770, "134,741,770"), (0.5, "0.5"),
     (12345.6, "12,346"), (0.0, "0"), (1234.5, "1,234.5"), ("a", "a")])  # fmt: skip
def test_numbers_are_written_as_people_write_them(value: object, words: str) -> None:
    assert cell_text(value) == words


@each("value, column, words", [
     (67.2, "score (%)", "67.20"), (-0.123456, "difference (points)", "-0.12"), (0.00002, "p (Holm)", "< 0.001"),
     (0.04, "p", "0.040"), (2192, "trainable parameters", "2,192"), (0.00002, "learning rate", "2e-05")])  # fmt: skip
def test_the_unit_of_a_column_decides_how_many_decimals_are_shown(value: object, column: str, words: str) -> None:
    assert cell_text(value, column) == words


def test_latex_begins_with_the_source_as_a_comment() -> None:
    assert as_latex(FRAME, source="sweep a\nb").startswith("% sweep a\\nb\n\\providecommand")


def test_csv_begins_with_its_header_and_ends_each_row_with_the_source(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(as_csv(FRAME, "sweep a\nb, c"), encoding="utf-8", newline="")
    table = pd.read_csv(path)
    assert [*table.columns] == [*FRAME.columns, "source"]
    assert table["source"].tolist() == ["sweep a\\nb, c"] * len(FRAME)
    assert table["n"].tolist() == FRAME["n"].tolist()
