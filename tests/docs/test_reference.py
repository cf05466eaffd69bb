"""How the reference puts a model and a table into Markdown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from docs import reference
from tests.examples import each


class Inner(BaseModel):
    """Inside.

    Attributes:
        word, other: One of two
            words.
    """

    word: Literal["a", "b"] = "a"
    other: str | None = None


class Outer(BaseModel):
    """Around.

    Attributes:
        inner: What is inside.
    """

    inner: Inner
    share: Annotated[float, Field(gt=0, le=1)] = 0.5


def test_a_docstring_may_explain_several_keys_in_several_lines() -> None:
    assert reference.described(Inner) == {"word": "One of two words.", "other": "One of two words."}


def test_models_inside_a_model_are_found() -> None:
    assert [*reference.models_of(Outer)] == ["Outer", "Inner"]


def test_bounds_words_and_required_keys_are_shown() -> None:
    page = "".join(reference.model_section(model, Outer) for model in (Outer, Inner))
    assert "| `inner` | [Inner](#inner) | required | What is inside. |" in page
    assert "| `share` | number > 0, ≤ 1 | `0.5` |" in page
    assert '| `word` | `a`, `b` | `"a"` | One of two words. |' in page


@each("path", reference.pages())
def test_every_key_option_column_and_word_is_explained(path: str) -> None:
    page = reference.pages()[path]
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert [row for row in rows if row.endswith("|  |")] == []


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert reference.table(("a",), [("x|y\nz",)]).splitlines()[-1] == r"| x\|y z |"
