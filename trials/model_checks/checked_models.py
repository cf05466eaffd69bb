"""Check a model for a task once per content: files, tokenizer, and a training step of a small copy.

What is found is remembered in the cache under the model's revision, so that the next plan costs nothing:

    <cache>/models/<key>.json     the notes on a model that passed; refusals are not remembered

Of the starter model a plan checks only whether its weights are whole: the tests do the rest, and a plan of it loads no
torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
from pathlib import Path

from trials.cache.node_cache import read_checked_json, write_json
from trials.models.family import Head
from trials.models.model_files import INDEX
from trials.outside.plain_files import digest_of
from trials.settings import ModelSpec
from trials.sources.cache import cache_root
from trials.sources.local_models import attention_note, weight_shapes
from trials.starter import model_path

VERSION = 3  # of the checks: increment it when a model that passed might not pass again
_LIBRARIES = ("transformers", "tokenizers", "torch")


def check_model(spec: ModelSpec, head: Head, *, pairs: bool = False) -> tuple[str, ...]:
    """Sentences about a model that the user should read, such as the padding token chosen for it.

    Args:
        pairs: Whether the texts of the task are pairs.

    Raises:
        ModelError: a trial of it would fail; says why in one line.
    """
    if Path(spec.path) == model_path():
        weight_shapes(model_path())
        return ()
    key = _key(spec, head, pairs=pairs)
    path = cache_root() / "models" / f"{key}.json"
    with contextlib.suppress(OSError, ValueError):
        return tuple(map(str, read_checked_json(path, key)))
    from trials.model_checks.rehearsal import rehearse

    notes = tuple(filter(None, (attention_note(Path(spec.path)), *rehearse(spec, head, pairs=pairs))))
    with contextlib.suppress(OSError):  # the next plan checks again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, notes, key)
    return notes


def _key(spec: ModelSpec, head: Head, *, pairs: bool) -> str:
    index = Path(spec.path) / INDEX  # says which shard has which weight, and is in no revision
    placed = [digest_of(index).hex()] if index.is_file() else []
    content = [VERSION, spec.revision, *placed, head, pairs, spec.pickle, *map(importlib.metadata.version, _LIBRARIES)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]
