"""The tables of docs/pages/explanation/intervals.md: every figure in them is one that the calibration found.

`python -m tests.lab.calibration --write` keeps what it found in figures.json, and the tables are made from that; the
ledger is that of the shipped trials. On the page each table stands between a line that names it and one that ends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.config.quantities import amount
from tests.lab.calibration.halves import WAYS
from tests.lab.calibration.ledger import churn, ledger_of
from tests.lab.calibration.measure import HELD_OUT, IN_FOLDS, MOST, PLANS, WRONG, Figure
from tests.lab.calibration.shipped import shipped
from tests.lab.calibration.worlds import FAMILIES, NEGLECTED, OTHERS, SHAPES, SINGLE, SMALL, STRESS, WORLDS

PAGE = Path(__file__).parents[3] / "docs" / "pages" / "explanation" / "intervals.md"
FIGURES = Path(__file__).with_name("figures.json")
_TABLE = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end -->", re.DOTALL)
Found = dict[tuple[str, str], Figure]  # by world and what


def kept() -> list[Figure]:
    """What was found when the page was written."""
    worlds = json.loads(FIGURES.read_text(encoding="utf-8"))
    return [Figure(world, what, *values) for world, figures in worlds.items() for what, values in figures.items()]


def keep(figures: Iterable[Figure]) -> None:
    """Writes them, a world a line."""
    worlds: dict[str, dict[str, object]] = {}
    for world, what, share, *rest in figures:
        worlds.setdefault(world, {})[what] = (round(share, 5), *rest)
    lines = ",\n".join(f"{json.dumps(world)}: {json.dumps(of)}" for world, of in worlds.items())
    FIGURES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def text() -> str:
    """The page with its tables as they should be. Raises KeyError: it has a table of another name."""
    tables = {"ledger": _ledger(), "churn": _churn(), **_simulated({(each.world, each.what): each for each in kept()})}
    now = PAGE.read_text(encoding="utf-8")
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n\n{tables[found[1]]}\n\n<!-- end -->", now)


def _simulated(found: Found) -> dict[str, str]:
    return {
        "promised": _table(
            ("losses of seeds", "settings compared", "wrongly recommended", "wrongly beyond", "covered", "sweeps"),
            _promised(found),
        ),
        "worlds": _table(("losses", "covered", "wrongly recommended", "wrongly beyond", "power"), _worlds(found)),
        "neglected": _table(
            ("losses", "over seeds alone", "by sentence", "as used", "times as wide"), _neglected(found)
        ),
        "chances": _table(("known from", "said", "came true", "losses"), _chances(found)),
        "folds": _table(
            ("small set", "seeds vary", "folds reach", "a part held out", "wrongly recommended", "wrongly beyond"),
            _folds(found),
        ),
        "power": _table(("settings compared", *(f"{n} seeds" for n in PLANS)), _power(found)),
        "decisions": _table(("what is promised", "simulated", "goal"), _decisions(found)),
        "halves": _table(("interval", "losses beyond its upper end", "beyond its lower end"), _halves(found)),
    }


def _promised(found: Found) -> Iterator[tuple[str, ...]]:
    """The worst rate of all worlds and plans, by the distribution of the losses of seeds."""
    for shape in (*SHAPES, "exponential (more than is promised for)"):
        for settings in (1, 2, 3):
            of = STRESS if shape not in SHAPES else SINGLE if settings == 1 else FAMILIES
            names = [_label(name, settings) for name in of if name.startswith(shape.split()[0])]
            worst = [max(found[name, f"{what}, {n} planned"].share for name in names for n in PLANS) for what in WRONG]
            covered = min(found[name, f"covered, {n} seeds"].share for name in names for n in PLANS)
            sweeps = f"{found[names[0], f'covered, {MOST} seeds'].n:,}"
            yield (shape, str(settings), *(f"{100 * share:.1f} %" for share in worst), _percent(covered), sweeps)


def _worlds(found: Found) -> Iterator[tuple[str, ...]]:
    """Each of the other worlds; three figures are of three, five and eight seeds, covered by or planned."""
    for name in OTHERS:
        for settings in (1, 2, 3):
            label = _label(name, settings)
            if (label, f"covered, {MOST} seeds") in found:
                yield (
                    label,
                    _each(found[label, f"covered, {n} seeds"].share for n in PLANS),
                    *(_each((found[label, f"{what}, {n} planned"].share for n in PLANS), 1) for what in WRONG),
                    _percent(found[label, f"recommended by {MOST} seeds if it loses nothing"].share),
                )


def _folds(found: Found) -> Iterator[tuple[str, ...]]:
    """Each size of a small set; two figures are of five and of ten seeds, errors the worst of normal and skewed."""
    for name in SMALL:
        what, size, times, shape = name.split(", ")
        if shape != "normal":
            continue
        names = [other for other in SMALL if other.startswith(f"{what}, {size}, {times}, ")]
        reach = [
            " / ".join(f"{100 * found[name, f'points that {n} seeds reach, {how}'].share:.1f}" for n in IN_FOLDS)
            for how in ("folds", f"{100 * HELD_OUT:g} % held out")
        ]
        worst = [max(found[each, f"{what}, {n} planned"].share for each in names for n in IN_FOLDS) for what in WRONG]
        yield (
            f"{size.removesuffix(' in folds')} {what}",
            times.removeprefix("seeds "),
            *reach,
            *(f"{100 * share:.1f} %" for share in worst),
        )


def _chances(found: Found) -> Iterator[tuple[str, ...]]:
    for (name, what), came_true in found.items():
        if name.startswith("chance, ") and what == "came true":
            said = found[name, "chance that was said"]
            source = name.split(", ")[1]
            yield source, _percent(said.share), _percent(came_true.share), f"{came_true.n:,}"


def _neglected(found: Found) -> Iterator[tuple[str, ...]]:
    """What each interval holds; a cell is empty where there are neither documents nor words."""
    for name in NEGLECTED:
        kinds = (
            found.get((name, f"covered{what}, {MOST} seeds")) for what in (" over seeds alone", " by sentence", "")
        )
        wide = found.get((name, f"width against that by sentence, {MOST} seeds"))
        yield (name, *(_percent(kind.share) if kind else "" for kind in kinds), f"{wide.share:.2f}" if wide else "")


def _power(found: Found) -> Iterator[tuple[str, ...]]:
    for settings in (1, 2, 3):
        shares = [
            found[f"power, {amount(settings, 'setting')}", f"recommended by {n} planned seeds, loses nothing"].share
            for n in PLANS
        ]
        yield (str(settings), *map(_percent, shares))


def _decisions(found: Found) -> Iterator[tuple[str, ...]]:
    """All that is found by whole decisions."""
    worlds = {_label(name, settings) for name in WORLDS for settings in (1, 2, 3)} | {*SMALL}
    for (name, what), figure in found.items():
        if name not in worlds and not name.startswith(("power", "halves", "chance, ")):
            yield f"{name}: {what}", f"{100 * figure.share:.1f} %", figure.promise


def _halves(found: Found) -> Iterator[tuple[str, ...]]:
    for way in WAYS:
        shares = [found[f"halves: {way}", f"losses beyond the {end} end"].share for end in ("upper", "lower")]
        yield (way, *(f"{100 * share:.1f} %" for share in shares))


def _ledger() -> str:
    rows = (
        (each.name, f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})", each.presumed)
        for each in ledger_of(shipped())
    )
    return _table(("of the shipped trials", "measured", "presumed"), rows)


def _churn() -> str:
    rows = (
        (row.corpus, row.encoder, str(row.questions), f"{row.deviation:.1f}", _percent(row.churn))
        for row in churn(shipped()).itertuples()
    )
    return _table(("corpus", "encoder", "questions", "deviation of seeds, points", "churn"), rows)


def _label(name: str, settings: int) -> str:
    return name if settings == 1 else f"{name}, {amount(settings, 'setting')}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _each(shares: Iterable[float], digits: int = 0) -> str:
    return f"{' / '.join(f'{100 * share:.{digits}f}' for share in shares)} %"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
