"""The page of findings, from the store of FreezeBench: every figure on it is one that `permafrost answer` prints.

python -m docs.findings writes the page, which is part of the repository; its figure is drawn by the command that the
page names.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.analysis.answer import Answer
from orchestrator.analysis.answer_text import curve_lines
from orchestrator.api import answer, open_store

ROOT = Path(__file__).parents[1]
STORE = "configs/freezebench/store"
PAGE = "explanation/findings.md"

_TOP = """# Findings: what freezing costs on an encoder that people use

[FreezeBench](../../../configs/freezebench/README.md) trains all-MiniLM-L6-v2 (six layers, 22.6 M parameters) on 500
examples of each corpus, with the same recipe, subsets and seeds for every freeze. {n_trials} of its trials have
run; this page is written from them by `python -m docs.findings`, and grows with them. Each line is an answer of
`permafrost answer`: a loss is that of the baseline with the same seed, in points of the score, with the interval
that decides ([how](intervals.md)); savings are training FLOPs, which are exact. `permafrost demo` opens the same
trials.

![Loss against training FLOPs saved, a panel a corpus](../pictures/findings.svg)

Drawn by `permafrost export figure answer-losses --store {store} -o docs/pages/pictures/findings.svg`.
"""
_END = """## What cannot be told yet

- {undecided}.
- Whether freezing helps at 50 to 200 examples (the question of `configs/published/freezing_bert_glue.yaml`), and
  whether alternating layers beat the first ones (claimed in `configs/published/emekaeze_pos.yaml`): `core.yaml` has one
  train size and freezes from the bottom. `minilm.yaml` has both.
- Whether a larger encoder loses less at the same share of layers: `mpnet.yaml`.
- Times: the trials ran beside other work on two cores, so only FLOPs are reported.
"""


def page() -> str:
    """The page in Markdown. Raises StoreError: there is no store."""
    answers = answer(str(ROOT / STORE))
    decidable = [each for each in answers if _has_interval(each)]
    rest = [each for each in answers if not _has_interval(each)]
    n_trials = len(open_store(str(ROOT / STORE)).completed_ids())
    names = ", ".join(each.corpus for each in rest)
    undecided = (
        f"Anything on {names}: fewer than three seeds have run" if rest else "Every corpus has three seeds or more"
    )
    sections = [
        _TOP.format(n_trials=n_trials, store=STORE),
        *map(_section, decidable),
        _END.format(undecided=undecided),
    ]
    return "\n".join(sections)


def _has_interval(each: Answer) -> bool:
    return any(row["low"] is not None for row in each.settings)


def _section(each: Answer) -> str:
    lines = "\n".join(line.rstrip() for line in curve_lines(each))
    return f"## {each.heading}\n\n{each.sentence}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    (ROOT / "docs" / "pages" / PAGE).write_text(page(), encoding="utf-8")
