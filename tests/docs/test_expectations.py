"""What README and the page of questions let a reader expect is what the code computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.prospects import decidable_tolerance, needed_data, variances_of
from orchestrator.analysis.wording import NOT_DECIDED, NOT_LEARNED, NOT_YET
from orchestrator.own_data.question import SEEDS

ROOT = Path(__file__).parents[2]
QUESTIONS = (ROOT / "docs" / "pages" / "howto" / "questions.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "pages" / "reference" / "glossary.md").read_text(encoding="utf-8")


def test_readme_says_what_300_examples_decide_and_what_they_do_not() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "of 300 labelled examples, 90 of them as dev, ten seeds" in readme
    assert SEEDS == 10
    tagging, text = (round(decidable_tolerance(variances_of(task), 90, SEEDS)) for task in ("pos", "sst2"))
    assert f"within about {tagging} points of tagging or {text} of text accuracy" in readme
    for task in ("pos", "sst2"):
        need = needed_data(variances_of(task), 1.0, 90, SEEDS)
        assert need is not None
        assert need.examples == pytest.approx(2_000, rel=0.4)


@pytest.mark.parametrize("word", [NOT_YET, NOT_DECIDED, NOT_LEARNED, "Not worth it", "Freeze nothing"])
def test_each_word_that_an_answer_begins_with_is_explained_with_what_to_do(word: str) -> None:
    assert f"| **{word}** |" in QUESTIONS
    assert word.lower() in GLOSSARY
