"""The frame of a store's trials: sentences, their documents and words, or None where the corpus has none."""

from __future__ import annotations

from pathlib import Path

from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import open_store
from tests.builders import make_spec
from tests.orchestrator.store.rows import complete


def test_documents_stand_beside_the_sentences_and_other_rows_have_none(tmp_path: Path) -> None:
    store, specs = open_store(str(tmp_path), must_exist=False), [make_spec(seed=seed) for seed in range(3)]
    for spec, documents in zip(specs, ([0, 1], None), strict=False):
        complete(store, spec, without=["contributions"])
        known = {"trial_id": spec.trial_id, "attempt": 1, "values": [0.25, 0.75], "documents": documents}
        store.append("contributions", [{**known, "split": split} for split in ("dev", "test")])
    frame = store.evidence(specs).frame
    assert [None if each is None else each.tolist() for each in frame["sentences"]] == [[0.25, 0.75]] * 2 + [None]
    assert [None if each is None else each.tolist() for each in frame["documents"]] == [[0, 1], None, None]
    of_first, of_second = (StoredTrials(store).progress(spec.trial_id).sentences["dev"] for spec in specs[:2])
    assert (of_first["documents"].tolist(), [*of_second]) == ([0, 1], ["sentences"])
