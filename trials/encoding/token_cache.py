"""Encoded corpora on disk: tokenised once per node, memory-mapped by every worker in milliseconds."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trials.cache.node_cache import existing_folder, node_folder
from trials.datasets.corpus import SPLITS
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.settings import DataSpec, ModelSpec
from trials.sources.cache import locked
from trials.tasks.task import Example, Split

VERSION = 3  # of the files: increment it when the same key would give others
_META = "meta.json"
_FIELDS = ("ids", "labels", "gold", "at", "types")  # of an example, each concatenated over all examples in one file


def token_key(task: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> str:
    """A digest of everything an encoded corpus depends on; the name of its folder."""
    read = data.content()
    tokenizer = [model.revision, importlib.metadata.version("tokenizers"), importlib.metadata.version("transformers")]
    content = [VERSION, task, read, *tokenizer, max_length, lowercase]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def cached_or_encoded(key: str, encode: Callable[[], EncodedCorpus]) -> EncodedCorpus:
    """The corpus of a key: memory-mapped if this node has it, else encoded and, if there is room, cached."""
    folder = existing_folder("tokens", key)
    if folder is not None and (cached := _read(folder)) is not None:
        return cached
    encoded = encode()
    with contextlib.suppress(OSError):  # no room: the next worker encodes for itself
        _write(node_folder("tokens", key, _n_bytes(encoded)), encoded)
    return encoded


def _n_bytes(encoded: EncodedCorpus) -> int:
    examples = [example for split in encoded.splits.values() for example in split.examples]
    return sum(8 * (2 * len(e.ids) + len(e.labels) + 2 * len(e.gold)) for e in examples)


def _write(folder: Path, encoded: EncodedCorpus) -> None:
    """Write all files, the description last: a folder without it is incomplete."""
    with locked(folder / ".lock"):
        if (folder / _META).exists():
            return
        for name, split in encoded.splits.items():
            for field in _FIELDS:
                rows = [row for e in split.examples if (row := getattr(e, field)) is not None]
                if rows:
                    np.save(folder / f"{name}.{field}.npy", np.concatenate(rows))
            sizes = [[len(e.ids), len(e.labels), len(e.gold)] for e in split.examples]
            np.save(folder / f"{name}.sizes.npy", np.array(sizes, dtype=np.int64).reshape(-1, 3))
            np.save(folder / f"{name}.cut.npy", np.array([e.cut for e in split.examples], dtype=np.int64))
        meta = {"labels": encoded.labels, "names": encoded.names, "pad_id": encoded.pad_id}
        part = folder / f"{_META}.part"
        part.write_text(json.dumps(meta), encoding="utf-8")
        part.replace(folder / _META)


def _read(folder: Path) -> EncodedCorpus | None:
    """The corpus in a folder; None if it is incomplete."""
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        splits = [_split(folder, name) for name in SPLITS]
    except (OSError, EOFError, ValueError, KeyError):
        return None
    return EncodedCorpus(tuple(meta["labels"]), tuple(meta["names"]), meta["pad_id"], *splits)


def _split(folder: Path, name: str) -> Split:
    ends = np.cumsum(np.load(folder / f"{name}.sizes.npy"), axis=0)  # (examples, 3): of ids, labels, gold
    starts = np.vstack([np.zeros((1, 3), dtype=np.int64), ends[:-1]]) if len(ends) else ends
    if not len(ends):
        return Split([])
    ids, labels, gold, at = (_mapped(folder / f"{name}.{field}.npy") for field in ("ids", "labels", "gold", "at"))
    types = _mapped(folder / f"{name}.types.npy") if (folder / f"{name}.types.npy").exists() else None
    cuts = np.load(folder / f"{name}.cut.npy").tolist()
    examples = []
    for (i, j, k), (i_end, j_end, k_end), cut in zip(starts.tolist(), ends.tolist(), cuts, strict=True):
        of_pair = None if types is None else types[i:i_end]
        examples.append(Example(ids[i:i_end], labels[j:j_end], gold[k:k_end], at[k:k_end], of_pair, cut=cut))
    return Split(examples)


def _mapped(path: Path) -> np.ndarray:
    """An array on disk; mapped copy-on-write, as torch requires writable memory."""
    array: np.ndarray = np.load(path, mmap_mode="c")
    return array
