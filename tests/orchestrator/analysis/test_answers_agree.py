"""No answer says two things: every setting of the shipped stores, at ten tolerances, on whatever shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.answer import Answer, answer_to, questions, saved_shares
from orchestrator.analysis.answer_text import tolerance_lines
from orchestrator.analysis.decide import decide
from orchestrator.api.next_steps import other_tolerance
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.store import open_store
from tests.orchestrator.analysis.frames import at_tolerance

STORE = open_store(str(Path(__file__).parents[3] / "configs" / "freezebench" / "store"))
TOLERANCES = (0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 15)
SLACK = 1e-9


def contradictions(answer: Answer) -> Iterator[str]:
    """What its headline, list, interval, further seeds, next command and JSON say that another of them denies."""
    yield from of_list(answer)
    yield from of_interval(answer)
    if answer.outcome == "not decided":
        yield from of_what_is_missing(answer)


def of_list(answer: Answer) -> Iterator[str]:
    of, chosen = answer.decided_by, answer.decided_by.choice
    met = [bought.cell for bought in of.trade_offs if bought.tolerance <= answer.tolerance + SLACK]
    if not of.is_vacuous and met[-1:] != ([chosen["cell"]] if chosen else []):
        yield "what is recommended is not what the list has for the tolerance"
    if any(bought.tolerance >= of.baseline.gain for bought in of.trade_offs):
        yield "the list has a tolerance that gives up all that was learned"
    listed = [line.split(": ", 1)[1] for line in tolerance_lines(answer) if line.startswith("  within")]
    for step in other_tolerance(ChooseOptions(data="x", tolerance=answer.tolerance), answer, "choose-x"):
        if not (any(text in step.brings for text in listed) or (of.is_vacuous and not of.trade_offs)):
            yield "a next command brings what the list has not"


def of_interval(answer: Answer) -> Iterator[str]:
    chosen, told = answer.decided_by.choice, answer.as_json()
    if chosen and not chosen["low"] <= chosen["loss"] <= chosen["high"] <= answer.tolerance + SLACK:
        yield "what is recommended has an interval that reaches over the tolerance"
    if chosen and answer.tolerance >= answer.decided_by.baseline.gain:
        yield "a tolerance that gives up all that was learned buys something"
    if "gains" in answer.lines[1].split(";")[0] and not told["high"] < 0:
        yield "a gain whose interval is not below 0"


def of_what_is_missing(answer: Answer) -> Iterator[str]:
    of, (headline, figures), more = answer.decided_by, answer.lines, answer.as_json()["further_seeds"]
    row = of.missing_data[of.table["freeze"] == answer.about].iloc[0]
    named = re.search(r"about (?:[\d,]+ more [a-z ]+ or )?(\d+) more seeds? would", figures)
    if bool(more) != (headline == "Not decided yet") or (named and int(named[1]) != more):
        yield "headline, words and JSON have other seeds"
    if "unlikely to decide" in figures and (more or pd.notna(row["further_sentences"])):
        yield "unlikely, and a number that would do"
    if named and " or " not in named[0] and row["seeds_share"] < 0.5 and pd.notna(row["further_sentences"]):
        yield "seeds alone, where most of the variance is that of sentences"
    left = of.looks.planned - int(of.table["n_run"].max())
    if left > 0 and (more or 0) > left:
        yield "more seeds than the plan has left"


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [plan.name for plan in STORE.sweeps()])
def test_no_answer_contradicts_itself(sweep: str) -> None:
    plan = next(plan for plan in STORE.sweeps() if plan.name == sweep)
    trials = STORE.evidence(plan.specs)
    found = set[str]()
    for rows in questions(trials.frame):
        of = decide(rows, plan.decision_plan)
        for tolerance in TOLERANCES:
            answer = answer_to(rows, trials.specs, at_tolerance(of, tolerance), saved_shares(rows))
            found |= {f"{answer.heading} within {tolerance:g}: {text}" for text in contradictions(answer)}
    assert found == set()
    assert np.isfinite(of.table["high"]).any()
