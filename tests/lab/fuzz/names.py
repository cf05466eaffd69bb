"""Corpora by number whose folder, files, labels and words hold hostile text; each is checked, as `data check` does.

What is printed, and the tables that a report would make of it, must not hold a character that acts.
"""

from __future__ import annotations

import csv
import io
import random
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dashboards.data.latex_tables import as_latex
from dashboards.data.table_files import as_csv, as_markdown
from orchestrator.commands.data_check import check
from tests.lab.fuzz.hostile_text import HOSTILE, has_control_character
from tests.lab.fuzz.judging import Verdict, judged

LIMIT_S = 20.0
_ITEMS = 4


class Named(NamedTuple):
    """A corpus.

    Attributes:
        kind: The format of its files.
        folder: Its name.
        words, labels: In its files.
    """

    kind: str
    folder: str
    words: tuple[str, ...]
    labels: tuple[str, ...]


class Names:
    """Makes corpora and checks them.

    Attributes:
        folder: Where they are.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed

    def make(self, number: int) -> Named:
        """The corpus of this number, always the same."""
        rng = random.Random(f"name {self.seed} {number}")

        def text() -> str:
            return "".join(rng.choice(HOSTILE) for _ in range(rng.choice((1, 1, 2, 4))))

        folder = re.sub(r"[/\0]", "_", text())[:60]
        kind = rng.choice(("tsv", "csv", "jsonl", "conllu"))
        words, labels = (tuple(text() for _ in range(_ITEMS)) for _ in range(2))
        return Named(kind, folder or "a", words, labels)

    def try_out(self, named: Named) -> Verdict:
        """Check the corpus and look at what was printed."""
        home = self.folder / "corpora"
        shutil.rmtree(home, ignore_errors=True)
        place = home / f"a{named.folder}"
        place.mkdir(parents=True)
        for split in ("train", "dev"):
            (place / f"{split}.{named.kind}").write_bytes(_WRITERS[named.kind](named, split).encode())
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            text, label = (None, None) if named.kind == "conllu" else ("text", "label")
            verdict = judged(lambda: check(name=str(place), text=text, label=label, debug=True), limit_s=LIMIT_S)
        wrong = _fault(printed.getvalue(), named)
        return Verdict("finding", wrong) if wrong else verdict


def _fault(printed: str, named: Named) -> str | None:
    """What is wrong with what was printed, and with tables of the labels."""
    if has_control_character(printed.replace("\n", "")):
        return f"prints a control character: {printed[:300]!r}"
    frame = pd.DataFrame({"label": named.labels, "corpus": [named.folder] * _ITEMS})
    if has_control_character(re.sub(r"\n", "", as_latex(frame, caption=named.folder) + as_markdown(frame))):
        return "a table holds a control character"
    if re.search(r"(?<!textbackslash)\\(input|write18)", as_latex(frame)):
        return "a LaTeX table holds a macro"
    cells = (cell for row in csv.reader(io.StringIO(as_csv(frame), newline="")) for cell in row)
    formulas = [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n")) and not re.fullmatch(r"[-+]?\d+", cell)]
    return f"a CSV table holds a formula: {formulas[0]!r}" if formulas else None


def _table(named: Named, dialect: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, dialect)
    writer.writerows([("text", "label"), *zip(named.words, named.labels, strict=True)])
    return out.getvalue()


def _jsonl(named: Named) -> str:
    frame = pd.DataFrame({"text": named.words, "label": named.labels})
    return str(frame.to_json(orient="records", lines=True))


def _conllu(named: Named) -> str:
    rows = zip(named.words, named.labels, strict=True)
    lines = [f"{n}\t{word}\t_\t{label}" + "\t_" * 6 for n, (word, label) in enumerate(rows, start=1)]
    return "\n".join(lines) + "\n\n"


_WRITERS: dict[str, Callable[[Named, str], str]] = {
    "tsv": lambda named, split: _table(named, "excel-tab") + f"{split}\tX\n",
    "csv": lambda named, split: _table(named, "excel") + f"{split},X\n",
    "jsonl": lambda named, split: _jsonl(named) + f'{{"text": "{split}", "label": "X"}}\n',
    "conllu": lambda named, split: _conllu(named) + f"1\t{split}\t_\tX" + "\t_" * 6 + "\n\n",
}
