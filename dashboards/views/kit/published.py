"""Published numbers that may be compared with the selected trials, and why others may not.

`published.comparison` decides: metric, split, corpus and train size must be the same. If a study has another corpus,
one spec is enough to see it, and no row is read.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.frames import Snapshot
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import interval_bars, name, numbers, short
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Look
from orchestrator.analysis.cells import FreezeName
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import Line, Side, compare_study
from orchestrator.extras.published.our_results import corpus_refusal
from orchestrator.extras.published.study import STUDIES, Study, load_study
from orchestrator.store.schema import METRICS
from trials.settings import Seeds
from trials.spec import TrialSpec

OFF = "off"
_POINTS = ["cell", "study", "value", "low", "high", "citation"]


class Overlay(NamedTuple):
    """Published numbers that may be compared with the selected trials.

    Attributes:
        points: For the selected metric and split, one per cell and study: `cell`, `study`, `value`, `low`, `high`
            (0..1, ends of a published range or NaN), `citation`.
        lines: Every number that may be compared, as the page shows it: shares in percent.
        refusals: Why others may not be compared.
        n_fit, n_numbers: How many numbers of the studies are compared, and how many they have.
    """

    points: pd.DataFrame
    lines: pd.DataFrame
    refusals: tuple[str, ...]
    n_fit: int
    n_numbers: int


NOTHING = Overlay(pd.DataFrame(columns=_POINTS), pd.DataFrame(), (), 0, 0)


# Recent results, as several figures of a page need the same one: of this snapshot, query and trials.
_recent: deque[tuple[weakref.ref[Snapshot], PageQuery, pd.DataFrame, Overlay]] = deque(maxlen=4)


def overlay(selection: Selection) -> Overlay:
    """The numbers of the studies that the query names for the selected cells."""
    trials = selection.trials[["trial_id", "cell", "state"]]
    for snapshot, query, same, published in list(_recent):
        if snapshot() is selection.snapshot and query == selection.query and same.equals(trials):
            return published
    published = _overlay(selection)
    _recent.append((weakref.ref(selection.snapshot), selection.query, trials, published))
    return published


def _overlay(selection: Selection) -> Overlay:
    wanted = selection.query.study
    if wanted == OFF or not len(selection.trials):
        return NOTHING
    if wanted and wanted not in STUDIES:
        return NOTHING._replace(refusals=(f"There is no study {short(wanted)!r}; known: {', '.join(STUDIES)}.",))
    specs = [selection.snapshot.specs[cell] for cell in selection.trials["cell"].unique()]
    parts = [_of_study(_study(study), specs, selection) for study in ([wanted] if wanted else STUDIES)]
    return Overlay(
        pd.concat([part.points for part in parts], ignore_index=True),
        pd.concat([part.lines for part in parts], ignore_index=True),
        tuple(dict.fromkeys(refusal for part in parts for refusal in part.refusals)),
        n_fit=sum(part.n_fit for part in parts),
        n_numbers=sum(part.n_numbers for part in parts),
    )


_study = lru_cache(maxsize=16)(load_study)


def _of_study(study: Study, specs: Sequence[TrialSpec], selection: Selection) -> Overlay:
    reason, sizes = fitting_sizes(study, specs)
    if reason:
        return NOTHING._replace(refusals=(f"{study.study}: {reason}.",), n_numbers=_count(study))
    trials = selection.trials
    chosen = trials[(trials["state"] == "completed") & trials["train_size"].isin(sizes)]
    comparison = compare_study(study, _rows(chosen, selection), _evaluations(chosen, selection))
    metric = selection.query.metric or str(trials["metric"].iloc[0])
    cells = {(row.freeze, row.train_size): row.cell for row in chosen.drop_duplicates("cell").itertuples()}
    sides = [side for side in comparison.sides if not side.detail]
    rows = [_row(study, side, line) for side in sides for line in side.lines]
    drawn = [
        (side, line) for side in sides for line in side.lines if _is_drawn(study, line, metric, selection.query.split)
    ]
    points = pd.DataFrame([_point(study, side, line, cells) for side, line in drawn], columns=_POINTS)
    return Overlay(
        points.drop_duplicates(["study", "cell"], ignore_index=True),
        # as objects: Pandas makes plain text of names
        pd.DataFrame(rows).assign(frozen=pd.Series([row["frozen"] for row in rows], dtype=object)),
        tuple(f"{study.study}: {refusal.reason}." for refusal in comparison.refusals),
        n_fit=len({(side.group, line.metric, line.at_epoch, line.freeze) for side in sides for line in side.lines}),
        n_numbers=_count(study),
    )


def _count(study: Study) -> int:
    """How many numbers a study has, without tables that repeat others."""
    repeated = {group.id for group in study.results if group.detail}
    return sum(result.group not in repeated for result in study.results_flat())


def fitting_sizes(study: Study, specs: Sequence[TrialSpec]) -> tuple[str, set[int]]:
    """(why no trial can be compared, empty if any can; the train sizes that can)."""
    first = specs[0]
    corpora = {key: corpus for key, corpus in study.corpora.items() if corpus.task == first.task}
    if not corpora:
        return f"it has no corpus for the task {short(first.task)}", set()
    reasons = {key: corpus_refusal(corpus, first.data) for key, corpus in corpora.items()}
    if all(reasons.values()):
        return "; ".join(dict.fromkeys(short(reason, 200) for reason in reasons.values() if reason)), set()
    whole = first.data.sizes[0] if first.data.sizes else 0
    published = {group.train_size or whole for group in study.results if reasons.get(group.corpus or "", "") is None}
    sizes = {spec.train_size for spec in specs} & published
    if not sizes:
        listed = ", ".join(f"{size:,}" for size in sorted(published))
        return f"it has none of the selected train sizes, only {listed}", set()
    return "", sizes


def _rows(trials: pd.DataFrame, selection: Selection) -> list[dict[str, Any]]:
    """The trials as rows of the store, with the columns that are compared."""
    specs = selection.snapshot.specs
    texts = {cell: specs[cell].model_dump(mode="json") for cell in trials["cell"].unique()}
    tests = {name: trials[f"test:{name}"] for name in METRICS if f"test:{name}" in trials}
    metrics = pd.DataFrame(tests, index=trials.index).to_dict("records")
    return [
        {
            "trial_id": row.trial_id,
            "state": row.state,
            "spec": texts[row.cell] | Seeds.from_key(row.seed).settings,
            "device": row.device if isinstance(row.device, str) else None,
            "train_s": _known(row.train_s),
            "prefix_s": _known(row.prefix_s),
            "total_params": _known(row.total_params),
            "trainable_params": _known(row.trainable_params),
            "test_metrics": {name: value for name, value in scores.items() if pd.notna(value)},
        }
        for row, scores in zip(trials.itertuples(), metrics, strict=True)
    ]


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _evaluations(trials: pd.DataFrame, selection: Selection) -> list[dict[str, Any]]:
    epochs = selection.snapshot.epochs(trials)
    columns = [name for name in METRICS if epochs[name].notna().any()]
    rows: list[dict[str, Any]] = epochs[["trial_id", "step", "epoch", *columns]].to_dict("records")
    return [{key: None if value != value else value for key, value in row.items()} for row in rows]


def _is_drawn(study: Study, line: Line, metric: str, split: str) -> bool:
    theirs = study.metrics[line.metric]
    same = theirs.columns == (metric,) and theirs.split == split and not theirs.to_baseline
    return same and theirs.unit == "share" and line.at_epoch is None


def _point(study: Study, side: Side, line: Line, cells: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    is_range = line.theirs.low != line.theirs.high
    return {
        "cell": cells.get((line.freeze, side.train_size)),
        "study": study.study,
        "value": (line.theirs.low + line.theirs.high) / 2,
        "low": line.theirs.low if is_range else np.nan,
        "high": line.theirs.high if is_range else np.nan,
        "citation": study.citation,
    }


def _row(study: Study, side: Side, line: Line) -> dict[str, Any]:
    """A row of the table of comparable numbers."""
    scale = 100.0 if line.unit == "share" else 1.0

    def shown(value: float | None) -> float:
        return np.nan if value is None else round(scale * value, 4)

    theirs, ours, predicted = line.theirs, line.ours, line.replication
    return {
        "study": study.study,
        "table": side.source,
        "metric": study.metrics[line.metric].called + (f", epoch {line.at_epoch}" if line.at_epoch else ""),
        "unit": "%" if line.unit == "share" else line.unit,
        "frozen": FreezeName(line.freeze, side.n_layers),
        "published": shown(theirs.low),
        "published, to": shown(theirs.high if theirs.low != theirs.high else None),
        "ours": shown(ours.mean),
        "95 % from": shown(ours.low),
        "95 % to": shown(ours.high),
        "n": ours.n,
        "ours minus published": shown(line.difference),
        "predicted from": shown(None if line.counted else predicted.low),
        "predicted to": shown(None if line.counted else predicted.high),
        "verdict": predicted.verdict,
        "protocol differences": "; ".join(side.differs),
        "errata": " ".join(side.errata),
    }


# Published numbers next to ours: hollow diamonds in figures, and a table of the differences.


def published_traces(published: Overlay, at: Mapping[str, float], look: Look) -> list[dict[str, Any]]:
    """One trace of hollow diamonds per study, at the places of the cells, in percent."""
    points = published.points[published.points["cell"].isin(list(at))]
    return [_diamonds(str(study), rows, at, look) for study, rows in points.groupby("study", sort=False)]


def _diamonds(study: str, rows: pd.DataFrame, at: Mapping[str, float], look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"published: {name(study)}",
        "x": [at[cell] for cell in rows["cell"]],
        "y": numbers(rows["value"], 100),
        "error_y": interval_bars(rows.rename(columns={"value": "mean"}), look.muted, scale=100),
        "marker": {"symbol": "diamond-open", "size": 13, "color": look.text, "line": {"width": 2, "color": look.text}},
        "customdata": [[name(citation, 90)] for citation in rows["citation"]],
        "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}<br>published number (protocols may differ)<extra></extra>",
    }


def left_out(info: Overlay) -> str:
    """`38 of 52 published numbers do not fit: why`; empty if all do."""
    out = info.n_numbers - info.n_fit
    reasons = " ".join(info.refusals) or "no trial of ours has the same corpus, train size and freeze."
    return f"{out} of {counted(info.n_numbers, 'published number')} do not fit: {reasons}" if out else ""


def published_columns(published: Overlay, cells: pd.Series) -> dict[str, pd.Series]:
    """One column per study that has comparable numbers, in the order of `cells`."""
    return {
        f"published: {study} (%)": cells.map((100 * rows.set_index("cell")["value"]).round(4)).astype("float64")
        for study, rows in published.points.groupby("study", sort=False)
    }


def prepare_published(selection: Selection) -> Overlay:
    """The numbers of the figures, if any may be compared."""
    published = overlay(selection)
    if not len(published.lines):
        raise EmptyPartError(" ".join(published.refusals) or "Published studies are switched off (study: off).")
    return published


PUBLISHED = Part(
    "published-table",
    "Replication of published results",
    "Our results beside published ones of the same metric, split, corpus and train size, with a verdict.",
    prepare_published,
    lambda info: info.lines,
    method="Our side is the mean over seeds at the evaluation that the study reports, with its 95 % interval. "
    "Predicted is the 95 % interval for the published number under the variance over our seeds, and theirs "
    "where it is published. Reproduced: all of it lies within 1 point of the published number (5 points for "
    "time saved, 1 % for counts); not reproduced: all of it lies further away; otherwise the runs cannot tell. "
    "Times are compared as shares saved of the own baseline's time, never as seconds. The line below "
    "the table says what is not compared, and why.",
    note=left_out,
    if_any=True,
)
