"""What each sentence contributes to the scores of a selection, read on demand."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.data.trial_rows import TrialRows
from orchestrator.analysis.trial_frame import with_sentences
from orchestrator.store import ResultStore
from orchestrator.store.evidence import documents_of, sentences_of
from orchestrator.store.schema import CONTRIBUTIONS, KEYS

_readers: WeakKeyDictionary[ResultStore, TrialRows] = WeakKeyDictionary()
_lock = threading.Lock()


def trials_with_sentences(selection: Selection) -> pd.DataFrame:
    """The trials of a selection with `sentences` and `documents`, see `trial_frame.with_sentences`; all None for other
    metrics. Raises StoreError.

    Parts of the store that were read for an earlier call are not read again.
    """
    trials = selection.trials
    if not selection.scored:
        return with_sentences(trials, {})
    with _lock:
        reader = _readers.get(selection.snapshot.store)
        if reader is None:
            reader = TrialRows(selection.snapshot.store, "contributions", CONTRIBUTIONS.names, KEYS["contributions"])
            _readers[selection.snapshot.store] = reader
    done = selection.completed
    attempts = dict(zip(done["trial_id"], done["attempt"].astype(int), strict=True))
    rows = reader.of(attempts)
    return with_sentences(trials, sentences_of(rows, selection.scored), documents_of(rows, selection.scored))
