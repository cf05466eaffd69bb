"""The losses of each setting against its baseline, seed by seed and sentence by sentence.

Every interval and verdict on quality starts here. A loss is the baseline's score less the setting's under the same
seed. Where both trials recorded what each sentence contributes to their score, it is a row of one value a sentence
whose mean is that loss, and intervals are over seeds and sentences; else a single value, and they are over seeds alone.

An answer is about runs that do not collapse, and is given only if all runs together pass as well (`collapse`). So a
pair with a collapsed run is left out of `values` and `of`, unless half or more of the setting's own runs collapsed:
then collapsing is what the setting does, and the pair counts. `of_all` has every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.collapse import Collapses, collapses
from orchestrator.analysis.paired import pair
from orchestrator.analysis.rows import COMPLETED, Floats, numbers
from orchestrator.analysis.two_way import Estimate, document_sizes, estimates, item_losses

_SAME = 1e-4  # contributions whose mean is farther from the score are those of another metric


@dataclass(frozen=True)
class Losses:
    """The losses of all settings of a frame.

    Attributes:
        cells: One row a setting as of `paired.Pairs.cells`; `n_pairs` counts the pairs that `values` holds. Further
            columns: `n_run` (pairs, collapsed ones included), `median` (loss over all of them), `n_sentences` (Int64,
            NA where losses are of whole seeds), `n_documents` (Int64, NA where they are not known).
        values: (seeds, sentences), or (seeds, 1), of each setting, in the order of the seeds; (seeds, documents) where
            the document of each sentence is known (`two_way.item_losses`).
        sizes: (documents,) sentences of each; None where no document is known.
        of: The estimates of each setting; NaN without a pair.
        of_all: Likewise of all pairs, with those that have a collapsed run.
        own: How many runs of each setting collapsed.
        baseline: How many runs of its baseline did.
    """

    cells: pd.DataFrame
    values: tuple[Floats, ...]
    sizes: Floats | None
    of: Estimate
    of_all: Estimate
    own: tuple[Collapses, ...]
    baseline: tuple[Collapses, ...]


def losses(frame: pd.DataFrame, value: str = "score") -> Losses:
    """The losses in a score, paired by seed.

    Args:
        frame: As of `trial_frame`; the columns `sentences` (arrays whose mean is `value`, or None), `documents` and
            `words` (likewise, as of `two_way.item_losses`) and `collapsed` (1, 0 or NaN) may be absent.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    keep = [name for name in ("sentences", "documents", "words", "collapsed") if name in frame.columns]
    pairs = pair(frame, value, keep)
    rows, places = pairs.rows, np.argsort(pairs.codes, kind="stable")
    ends = np.searchsorted(pairs.codes[places], np.arange(len(pairs.cells) + 1))
    own, baseline = _collapses(frame, pairs.cells["cell"]), _collapses(frame, pairs.cells["baseline"])
    left_out = _left_out(rows, pairs.codes, own)
    columns = {name: rows[name].to_numpy() for name in rows.columns}
    values, every, medians = [], [], []
    counts: list[_Counts] = []
    for row in range(len(pairs.cells)):
        mine = places[ends[row] : ends[row + 1]]
        mine = mine[np.argsort(columns["seed"][mine], kind="stable")]
        used = mine[~left_out[mine]]
        values.append(_losses_of(columns, used, value, counts))
        every.append(values[-1] if len(used) == len(mine) else _losses_of(columns, mine, value, []))
        medians.append(-float(np.median(columns["difference"][mine])) if len(mine) else np.nan)
    cells = pairs.cells.assign(
        n_run=pairs.cells["n_pairs"],
        n_pairs=np.array([len(each) for each in values], dtype=np.int64),
        median=np.array(medians, dtype=np.float64),
        n_sentences=pd.array([each.sentences for each in counts], dtype="Int64"),
        n_documents=pd.array([each.documents for each in counts], dtype="Int64"),
    )
    sizes = next((each.sizes for each in counts if each.sizes is not None), None)
    return Losses(cells, tuple(values), sizes, estimates(values, sizes), estimates(every, sizes), own, baseline)


class _Counts(NamedTuple):
    """Sentences and documents of a dev set; None where they are not known."""

    sentences: int | None = None
    documents: int | None = None
    sizes: Floats | None = None


def _losses_of(columns: Mapping[str, Any], rows: npt.NDArray[np.intp], value: str, counts: list[_Counts]) -> Floats:
    """(seeds, sentences or documents) of these pairs; (seeds, 1) where contributions are not known of all."""
    by_sentence = _by_sentence(columns, rows, value) if "sentences" in columns and len(rows) else None
    if by_sentence is None:
        counts.append(_Counts())
        whole: Floats = -columns["difference"][rows][:, None].astype(np.float64)
        return whole
    n = by_sentence.shape[1]
    documents = _known(columns, "documents", rows, n)
    codes = None if documents is None else np.unique(documents, return_inverse=True)[1]
    sizes = document_sizes(codes, n)
    counts.append(_Counts(n, None if sizes is None else len(sizes), sizes))
    return item_losses(by_sentence, codes, _known(columns, "words", rows, n))


def _known(columns: Mapping[str, Any], name: str, rows: npt.NDArray[np.intp], n: int) -> npt.NDArray[Any] | None:
    """A column's value of each of `n` sentences, which all of these rows share; None where it is not known."""
    if name not in columns:
        return None
    known = [each for each in columns[name][rows].tolist() if each is not None and len(each) == n]
    return np.asarray(known[0]) if known else None


def _by_sentence(columns: Mapping[str, Any], rows: npt.NDArray[np.intp], value: str) -> Floats | None:
    """None where a trial has no contributions, or where they are of different sentences or of another metric."""
    sides = []
    for suffix in ("_base", ""):
        arrays = columns[f"sentences{suffix}"][rows].tolist()
        if any(each is None or len(each) < 2 or len(each) != len(arrays[0]) for each in arrays):
            return None
        stack = np.stack(arrays).astype(np.float64)
        off = columns[f"{value}{suffix}"][rows].astype(np.float64) - stack.mean(axis=1)
        if (np.abs(off) > _SAME).any():
            return None
        sides.append(stack + off[:, None])  # they are stored in single precision
    return None if sides[0].shape != sides[1].shape else sides[0] - sides[1]


def _collapses(frame: pd.DataFrame, cells: pd.Series) -> tuple[Collapses, ...]:
    """How many runs of each cell collapsed, of those of which it is known."""
    if "collapsed" not in frame.columns:
        return tuple(collapses([]) for _ in cells)
    known = frame[numbers(frame, "collapsed") >= 0]
    if "state" in known.columns:
        known = known[known["state"] == COMPLETED]
    flags = {cell: runs.to_numpy() == 1 for cell, runs in known.groupby("cell")["collapsed"]}
    return tuple(collapses(flags.get(cell, [])) for cell in cells)


def _left_out(rows: pd.DataFrame, codes: npt.NDArray[np.intp], own: tuple[Collapses, ...]) -> npt.NDArray[np.bool_]:
    """Which pairs a collapse makes unusable."""
    if "collapsed" not in rows.columns:
        return np.zeros(len(rows), dtype=bool)
    theirs, ours = (numbers(rows, name) == 1 for name in ("collapsed_base", "collapsed"))
    rare = np.array([each.is_rare for each in own], dtype=bool)
    left_out: npt.NDArray[np.bool_] = theirs | (ours & rare[codes] if len(rows) else ours)
    return left_out
