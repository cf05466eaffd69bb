"""Check the checkpoints and weights of a store: that each file is what its name and its trial's row promise."""

from __future__ import annotations

import re

from safetensors import SafetensorError, deserialize

from orchestrator.extras.store_care.check_rows import Report, check_recorded_weights
from orchestrator.storage.storage import Storage
from orchestrator.store.schema import CHECKPOINTS, WRONG_DIGEST, is_intact
from orchestrator.store.stored_tensors import CHECKPOINT_FILE, WEIGHTS, WEIGHTS_FILE, weights_of


def check_tensors(storage: Storage, report: Report) -> None:
    """Add what is wrong with them, and the weights that are gone."""
    means = "its trial continues from an older checkpoint or starts again"
    _check_files(storage, CHECKPOINTS, CHECKPOINT_FILE, "a checkpoint", means, report)
    means = "`export model` trains its trial again"
    _check_files(storage, WEIGHTS, WEIGHTS_FILE, "the weights of a trial", means, report)
    check_recorded_weights(report, weights_of(storage))


def _check_files(storage: Storage, folder: str, ours: re.Pattern[str], what: str, means: str, report: Report) -> None:
    """Check the files of a folder whose names hold a trial and a digest."""
    names = list(storage.at(folder).files())
    report.note_strange(folder, [name for name in names if not ours.fullmatch(name)], f"not {what}")
    for name in filter(ours.fullmatch, names):
        if wrong := _file_problem(storage.at(folder), name):
            report.remove_file((folder,), name, wrong, means)


def _file_problem(folder: Storage, name: str) -> str | None:
    """Why a file whose name holds its digest cannot be used; None if it can, or is gone."""
    try:
        content = folder.read(name)
        if not is_intact(name, content):
            return WRONG_DIGEST
        if name.endswith(".safetensors"):
            deserialize(content)  # type: ignore[no-untyped-call]
    except FileNotFoundError:  # a running sweep has replaced it
        return None
    except OSError as error:
        return f"cannot be read ({error})"
    except SafetensorError as error:
        return f"not a readable safetensors file ({error})"
    return None
