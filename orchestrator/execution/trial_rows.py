"""Turn the records that a trial yields into rows of the store's tables."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import trials
from orchestrator.store.plans import spec_columns
from orchestrator.store.schema import EPOCHS
from trials.corpora.corpus import Item, labels_of
from trials.plugins.loading import source_digests
from trials.record import EpochRecord, SplitReport, State, loss_fall, trial_totals
from trials.spec import TrialSpec
from trials.tasks.task import words_of
from trials.tasks.task_corpus import read_corpus


def epoch_row(spec: TrialSpec, attempt: int, record: EpochRecord) -> dict[str, Any]:
    """A row of `schema.EPOCHS`: the fields of the record that have a column there."""
    columns = {name: getattr(record, name) for name in EPOCHS.names if hasattr(record, name)}
    key = {"trial_id": spec.trial_id, "attempt": attempt}
    return {**columns, **record.metrics, **key, "time": _utc(record.time)}


def trial_row(
    spec: TrialSpec, attempt: int, records: list[EpochRecord], state: State, error: str | None
) -> dict[str, Any]:
    """A row of `schema.TRIALS`; without records its results are null."""
    row: dict[str, Any] = {
        **spec_columns(spec),
        "attempt": attempt,
        "state": state.value,
        "git_commit": git_commit(),
        "versions": list(versions().items()),
        "error": error,
        "time": _utc(time.time()),
    }
    return row | (_results(records) if records else {})


def _results(records: list[EpochRecord]) -> dict[str, Any]:
    best, last = max(records, key=lambda record: record.score), records[-1]  # max takes the earliest of equals
    return {
        "total_params": last.total_params,
        "trainable_params": last.trainable_params,
        "best_score": best.score,
        "best_epoch": best.epoch,
        "last_epoch": last.epoch,
        "test_score": last.test_score,
        "best_metrics": list(best.metrics.items()),
        "test_metrics": list(last.test_metrics.items()) if last.test_metrics else None,
        "constant_score": next((report.constant_score for report in last.reports if report.split == "dev"), None),
        "loss_fall": loss_fall([loss for record in records for loss in record.step_losses]),
        **trial_totals(records),
    }


def report_rows(spec: TrialSpec, attempt: int, report: SplitReport) -> dict[str, list[dict[str, Any]]]:
    """Rows of `schema.TAGS`, `CONTRIBUTIONS` and `PREDICTIONS`, as far as the trial has them.

    The words of predictions come from the corpus.
    """
    key = {"trial_id": spec.trial_id, "attempt": attempt, "split": report.split}
    rows = {"tags": [{**key, **asdict(tag)} for tag in report.tags]}
    if report.contributions:
        lists = {"documents": list(report.documents) or None, "words": list(report.words) or None}
        rows["contributions"] = [{**key, "values": list(report.contributions), **lists}]
    items: list[Item] = getattr(read_corpus(spec.task, spec.data), report.split) if report.gold else []
    rows["predictions"], start = [], 0
    for number, item in enumerate(items):
        end = start + len(labels_of(item))
        labels = {
            "forms": list(words_of(item)),
            "gold": _written(report, report.gold[start:end]),
            "predicted": _written(report, report.predicted[start:end]),
            "probability": list(report.probability[start:end]),
        }
        rows["predictions"].append({**key, "sentence": number, **labels})
        start = end
    return rows


def _written(report: SplitReport, labels: Sequence[float]) -> list[str | None]:
    """Labels by name, null where there is none; numbers as text."""
    if not report.names:
        return [str(number) for number in labels]
    return [report.names[int(label)] if label >= 0 else None for label in labels]


def _utc(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


@cache
def git_commit() -> str | None:
    """The commit of this code, with `+` if it has uncommitted changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        processes = [
            subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True, timeout=10)
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return processes[0].stdout.strip() + ("+" if processes[1].stdout.strip() else "")


@cache
def versions() -> dict[str, str]:
    """The versions that a result depends on; of plug-ins, the beginnings of their sources' digests."""
    packages = ("torch", "transformers", "tokenizers", "ray", "numpy")
    return (
        {"python": platform.python_version(), "permafrost-sweeps": trials.__version__}
        | {name: version for name in packages if (version := _version(name)) is not None}
        | {f"plug-in {module}": digest[:16] for module, digest in source_digests().items()}
    )


def _version(package: str) -> str | None:
    """The version of a package; None if it is not installed, as Ray need not be for `--cluster inline`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
