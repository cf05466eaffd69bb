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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from trials.cache.node_cache import read_checked_json, write_json
from trials.models.family import Head
from trials.models.model_files import INDEX, weight_shapes
from trials.outside.plain_files import digest_of
from trials.settings import ModelSpec
from trials.sources.cache import cache_root
from trials.sources.places.model_draft import attention_note
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
    index = Path(spec.path) / INDEX  # says which shard has which weight, and is in no revision
    placed = [digest_of(index).hex()] if index.is_file() else []
    content = [VERSION, spec.revision, *placed, head, pairs, spec.pickle, *map(importlib.metadata.version, _LIBRARIES)]

    def notes() -> Iterator[str]:
        from trials.model_checks.rehearsal import rehearse

        yield from filter(None, (attention_note(Path(spec.path)), *rehearse(spec, head, pairs=pairs)))

    return remembered(notes, content)


def remembered(notes: Callable[[], Iterable[str]], content: Sequence[object], before: str = "") -> tuple[str, ...]:
    """The notes of a check that has the same content each time; `before` is what its file's name begins with."""
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]
    path = cache_root() / "models" / f"{before}{key}.json"
    with contextlib.suppress(OSError, ValueError):
        return tuple(map(str, read_checked_json(path, key)))
    found = tuple(notes())
    with contextlib.suppress(OSError):  # the next plan checks again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, found, key)
    return found
