"""Encoded corpora on disk: tokenised once per node, memory-mapped by every worker in milliseconds.

    <cache>/tokens/<key>/<split>.<field>.npy   an array of all examples of a split
    <cache>/tokens/<key>/meta.json             labels, and length and digest of every file; written last

A worker checks lengths and digests when it maps the arrays, and again when a file has changed since. What does not fit
is deleted and encoded anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import mmap
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from trials.cache.node_cache import existing_folder, fast_digest, node_folder, read_checked_json, write_json
from trials.cache.set_up import note
from trials.datasets.corpus import SPLITS
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.errors import reason
from trials.escaping.plain_files import Stamp, stamp_of
from trials.settings import DataSpec, ModelSpec
from trials.sources.cache import cache_root, discard, locked
from trials.tasks.task import Example, Split

VERSION = 4  # of the files: increment it when the same key would give others
_META = "meta.json"
_FIELDS = ("ids", "labels", "gold", "at", "types")  # of an example, each concatenated over all examples in one file


def token_key(task: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> str:
    """A digest of everything an encoded corpus depends on; the name of its folder."""
    read = data.content()
    content = [VERSION, task, read, model.revision, *_libraries(), max_length, lowercase]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    return tuple(map(importlib.metadata.version, ("tokenizers", "transformers")))


def cached_or_encoded(key: str, encode: Callable[[], EncodedCorpus]) -> EncodedCorpus:
    """The corpus of a key: memory-mapped if this node has it, else encoded and, if there is room, cached."""
    folder = existing_folder("tokens", key)
    if folder is not None and (cached := _read(folder)) is not None:
        return cached
    encoded = encode()
    with contextlib.suppress(OSError):  # no room: the next worker encodes for itself
        _write(node_folder("tokens", key, _n_bytes(encoded)), encoded)
    return encoded


def file_stamps(key: str) -> tuple[Stamp, ...] | None:
    """The stamps of the files of a key, for whoever has them mapped; None if some are not there (any more)."""
    folder = cache_root() / "tokens" / key
    try:
        return tuple(stamp_of(path) for path in sorted(folder.glob("*.npy"))) or None
    except OSError:
        return None


def _n_bytes(encoded: EncodedCorpus) -> int:
    examples = [example for split in encoded.splits.values() for example in split.examples]
    return sum(8 * (2 * len(e.ids) + len(e.labels) + 2 * len(e.gold)) for e in examples)


def _write(folder: Path, encoded: EncodedCorpus) -> None:
    """Write all files, the description last: a folder without it is incomplete."""
    with locked(folder / ".lock"):
        if _read(folder, say=lambda what: None) is not None:
            return
        for path in folder.iterdir():
            if path.name not in (".lock", "boot"):
                discard(path)
        files: dict[str, tuple[int, int]] = {}  # name -> bytes, digest
        for name, split in encoded.splits.items():
            for field in _FIELDS:
                rows = [row for e in split.examples if (row := getattr(e, field)) is not None]
                if rows:
                    files |= _save(folder, f"{name}.{field}", np.concatenate(rows))
            sizes = [[len(e.ids), len(e.labels), len(e.gold)] for e in split.examples]
            files |= _save(folder, f"{name}.sizes", np.array(sizes, dtype=np.int64).reshape(-1, 3))
            files |= _save(folder, f"{name}.cut", np.array([e.cut for e in split.examples], dtype=np.int64))
            if split.documents is not None:
                files |= _save(folder, f"{name}.documents", split.documents)
        meta = {"labels": encoded.labels, "names": encoded.names, "pad_id": encoded.pad_id, "files": files}
        write_json(folder / _META, meta, folder.name)


def _save(folder: Path, name: str, array: np.ndarray) -> dict[str, tuple[int, int]]:
    path = folder / f"{name}.npy"
    np.save(path, array)
    return {name: (path.stat().st_size, _digest(folder, name, array))}


def _digest(folder: Path, name: str, array: np.ndarray) -> int:
    return fast_digest(array.data, folder.name, name, array.dtype.str, array.shape)


def _read(folder: Path, say: Callable[[str], None] = note) -> EncodedCorpus | None:
    """The corpus in a folder; None if it is incomplete, or not what was written."""
    try:
        meta = read_checked_json(folder / _META, folder.name)
        arrays = {name: _mapped(folder, name, *expected) for name, expected in meta["files"].items()}
    except FileNotFoundError as error:
        if error.filename == str(folder / _META):  # it is still being written
            return None
        say(f"cache: {error.filename} is gone; the corpus is encoded anew.")
        return None
    except (OSError, EOFError, ValueError) as error:
        say(f"cache: {reason(error)}; the corpus is encoded anew.")
        return None
    splits = [_split(arrays, name) for name in SPLITS]
    return EncodedCorpus(tuple(meta["labels"]), tuple(meta["names"]), meta["pad_id"], *splits)


def _split(arrays: dict[str, np.ndarray], name: str) -> Split:
    ends = np.cumsum(arrays[f"{name}.sizes"], axis=0)  # (examples, 3): of ids, labels, gold
    starts = np.vstack([np.zeros((1, 3), dtype=np.int64), ends[:-1]]) if len(ends) else ends
    if not len(ends):
        return Split([])
    ids, labels, gold, at = (arrays[f"{name}.{field}"] for field in ("ids", "labels", "gold", "at"))
    types = arrays.get(f"{name}.types")
    cuts = arrays[f"{name}.cut"].tolist()
    examples = []
    for (i, j, k), (i_end, j_end, k_end), cut in zip(starts.tolist(), ends.tolist(), cuts, strict=True):
        of_pair = None if types is None else types[i:i_end]
        examples.append(Example(ids[i:i_end], labels[j:j_end], gold[k:k_end], at[k:k_end], of_pair, cut=cut))
    return Split(examples, arrays.get(f"{name}.documents"))


def _mapped(folder: Path, name: str, n_bytes: int, digest: int) -> np.ndarray:
    """An array on disk; mapped copy-on-write, as torch requires writable memory. Raises OSError, ValueError."""
    path = folder / f"{name}.npy"
    if stamp_of(path).n_bytes != n_bytes:
        raise ValueError(f"{path}: has not the {n_bytes:,} bytes that were written")
    array: np.ndarray = np.load(path, mmap_mode="c" if n_bytes > mmap.PAGESIZE else None)  # no map is empty
    if _digest(folder, name, array) != digest:
        raise ValueError(f"{path}: its digest does not fit")
    return array
