"""Names, labels and words from outside act on no surface: no control character, formula, markup or macro gets through.

Every surface is drawn over a store whose names were written before names were escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from dashboards.report.files import write_report
from orchestrator.api.model_card import model_card
from orchestrator.commands.answer_command import answer
from orchestrator.commands.status_command import status
from orchestrator.config.console import stdout
from orchestrator.extras.store_care.exports import Format, export_tables
from orchestrator.store import ResultStore
from tests.builders import make_spec
from tests.dashboards.stores import Invented, specs, write_store
from tests.examples import each, first
from tests.orchestrator.store.rows import prediction, tag
from tests.security.hostile_text import HOSTILE, has_control_character
from trials.errors import MAX_QUOTED, quote
from trials.escaping import csv_cell, escape_line, json_text, latex, latex_comment, markdown, web_address
from trials.spec import DataSpec

TEXT = st.text(max_size=30) | st.sampled_from(HOSTILE)
NAME = "".join(HOSTILE)


@given(TEXT)
def test_escaped_text_is_one_line_without_control_characters(text: str) -> None:
    assert not has_control_character(escape_line(text))
    assert "\n" not in escape_line(text)
    assert escape_line(escape_line(text)) == escape_line(text)


@given(TEXT)
def test_latex_has_no_active_character(text: str) -> None:
    bare = re.sub(r"\\(text\w+\{\}|[&%$#_{}])", "", latex(text))
    assert not set(bare) & set("\\&%$#_{}~^\n")
    assert latex_comment(text).count("\n") == 1


@given(TEXT)
def test_a_quotation_is_short(text: str) -> None:
    assert len(quote(text)) <= MAX_QUOTED + 5
    assert len(quote([text] * 9)) <= MAX_QUOTED + 5


@each("value, cell", [
     ("=1+1", "'=1+1"), ("@SUM(A1)", "'@SUM(A1)"), ("-cmd", "'-cmd"), ("\t=1", "'\\t=1"), ("\r=1", "'\\r=1"),
     ("\n=1", "'\n=1"), ("-1.5", "-1.5"), ("+1e-5", "+1e-5"), (-3, -3), (-0.5, -0.5), (None, None), ("a=b",
     "a=b")])  # fmt: skip
def test_a_formula_gets_an_apostrophe_and_a_number_does_not(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


@each("raw", ["\x1b[31m", "\x9b31m", "\x07", "\x00", "\x7f", "\u202eabc", "a\rb", "\x1b]0;title\x07"])
def test_nothing_in_an_exported_file_acts_in_a_terminal(raw: str) -> None:
    text = f"a{raw}é\nb"
    acts = set(raw) - set("[31m]0;titleabc")
    assert not acts & set(str(csv_cell(text)))
    assert str(csv_cell(text)).endswith("é\nb")
    assert not acts & set(json_text([text]))
    assert json.loads(json_text([text])) == [text]


@each("text", ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//evil.example", "http://", "http://[",
             "java\nscript:x", "http://a/\n", " javascript:x", ""])  # fmt: skip
def test_only_addresses_of_the_web_become_links(text: str) -> None:
    assert web_address(text) is None


def test_a_name_is_escaped_where_it_enters_and_the_trial_stays_the_same() -> None:
    spec = make_spec()
    odd = spec.model_copy(update={"data": spec.data.model_copy(update={"name": NAME})})
    read = type(spec).model_validate_json(odd.model_dump_json())
    assert read.data.name == escape_line(NAME)
    assert read.trial_id == spec.trial_id
    assert not has_control_character(read.label)
    assert DataSpec.model_validate(spec.data.model_dump() | {"source": NAME}).source == escape_line(NAME)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    base = make_spec()
    data, model = (part.model_copy(update={"name": NAME}) for part in (base.data, base.model))
    chosen = specs(seeds=(0, 1, 2), train_sizes=(200,), data=base.data, model=base.model)
    named = [spec.model_copy(update={"data": data, "model": model}) for spec in chosen]
    state = {0: "completed", 1: "completed", 2: "failed"}
    made = Invented(device=lambda spec: NAME, state=lambda spec: state[spec.seed])
    store = write_store(tmp_path_factory.mktemp("hostile") / "store", named, made)
    first = named[0].trial_id
    store.append("tags", [tag(first, name=text) for text in HOSTILE])
    store.append("predictions", [prediction(first, forms=list(HOSTILE), gold=["X"] * len(HOSTILE),
                                            predicted=list(HOSTILE), probability=[0.5] * len(HOSTILE))])  # fmt: skip
    return store


@each(
    "command",
    [
        lambda at: status(at),
        lambda at: status(at, as_json=True),
        lambda at: answer(at),
        lambda at: status(at, each_trial=True),
    ],
)
def test_no_command_prints_one(
    command: Callable[[str], None], store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    command(store.address)
    shown = "".join(capsys.readouterr())
    assert shown
    assert not has_control_character(shown.replace("\n", ""))


@pytest.mark.slow
def test_no_file_of_a_report_has_one(store: ResultStore, tmp_path: Path) -> None:
    written = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path, pictures=False)
    assert {path.suffix for path in written.files} == {".html", ".csv", ".tex"}
    for path in written.files:
        text = path.read_bytes().decode()
        assert not has_control_character(re.sub(r"[\r\n]", "", text)) or path.suffix == ".csv", path
        if path.suffix == ".tex":
            assert not re.search(r"^[^%].*\\(input|write18)", text, re.MULTILINE), path
            assert all(line.startswith(("%", "\\", " ")) for line in text.splitlines()), path
        if path.suffix == ".csv":
            assert_no_formula(text)
        if path.suffix == ".html":
            assert "<script>alert" not in text


@pytest.mark.parametrize("form", first(1, Format))
def test_no_exported_table_has_a_formula(form: Format, store: ResultStore, tmp_path: Path) -> None:
    export_tables(store, tmp_path, form)
    for path in tmp_path.glob("*.csv"):
        assert_no_formula(path.read_bytes().decode())


def assert_no_formula(text: str) -> None:
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    odd = [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n")) and not re.fullmatch(r"[+-]?[\d.e+-]+", cell)]
    assert odd == []


def test_no_model_card_has_one(store: ResultStore) -> None:
    row = next(row for row in store.trials().to_pylist() if row["state"] == "completed")
    spec = make_spec()
    named = spec.model_copy(update={"data": spec.data.model_copy(update={"name": NAME, "source": NAME})})
    header, _, body = model_card(named, row, store, score=0.5, licence=NAME).removeprefix("---\n").partition("---\n\n")
    assert header
    assert not has_control_character(body.replace("\n", ""))
    assert not re.search(r"(?<!\\)(<script|\]\(javascript)", body)


def test_a_console_shows_no_markup_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    stdout.print(NAME, soft_wrap=True)
    stdout.print_line(f"[/red] {NAME} :smile:")
    shown = capsys.readouterr().out
    assert not has_control_character(shown.replace("\n", ""))
    assert "[/red]" in shown
    assert ":smile:" in shown


def test_markdown_has_no_link_or_element() -> None:
    assert markdown("[a](javascript:x) <b> `c`") == "\\[a\\](javascript:x) \\<b\\> \\`c\\`"
