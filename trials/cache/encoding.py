"""Encoded corpora: tokenised once per node, memory-mapped by every worker in milliseconds.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from trials.cache.node_cache import existing_folder, fast_digest, node_folder, read_checked_json, write_json
from trials.cache.set_up_work import SetUpWork, count_progress, note
from trials.corpora.corpus import SPLITS, Item, document_indices
from trials.errors import reason
from trials.models.load import has_token_types, load_tokenizer
from trials.outside.plain_files import Stamp, stamp_of
from trials.sources.cache import cache_root, discard, file_lock
from trials.spec import DataSpec, ModelSpec, TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Encoding, Example, Split, unit_of, unseen_labels
from trials.tasks.task_corpus import read_corpus


@dataclass(frozen=True)
class EncodedCorpus:
    """The splits; `test` and `mismatched` are empty where the corpus has none.

    Attributes:
        labels: The labels of train, which the head predicts.
        names: The labels, followed by those that occur only in dev or test and are never predicted.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    pad_id: int
    train: Split
    dev: Split
    test: Split
    mismatched: Split = field(default_factory=lambda: Split([]))

    @property
    def splits(self) -> dict[str, Split]:
        """Every split by its name."""
        return {"train": self.train, "dev": self.dev, "test": self.test, "mismatched": self.mismatched}

    def with_splits(self, splits: Mapping[str, Split]) -> EncodedCorpus:
        """A copy with some of its splits replaced."""
        return EncodedCorpus(self.labels, self.names, self.pad_id, *{**self.splits, **splits}.values())


VERSION = 4  # version of the files: increment it when the same key would give other files
_META = "meta.json"
_FIELDS = ("ids", "labels", "gold", "at", "types")  # an example's arrays; one file each has those of all examples


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
    """The stamps of a key's files, for a caller that has them mapped; None if some of the files are missing."""
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
    with file_lock(folder / ".lock"):
        if _read(folder, say=lambda what: None) is not None:
            return
        for path in folder.iterdir():
            if path.name != ".lock":
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
        arrays = {name: _map(folder, name, *expected) for name, expected in meta["files"].items()}
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
    ids, labels, gold, places = (arrays[f"{name}.{field}"] for field in ("ids", "labels", "gold", "at"))
    types = arrays.get(f"{name}.types")
    cuts = arrays[f"{name}.cut"].tolist()
    examples = []
    for (i, j, k), (i_end, j_end, k_end), cut in zip(starts.tolist(), ends.tolist(), cuts, strict=True):
        of_pair = None if types is None else types[i:i_end]
        examples.append(Example(ids[i:i_end], labels[j:j_end], gold[k:k_end], places[k:k_end], of_pair, cut=cut))
    return Split(examples, arrays.get(f"{name}.documents"))


def _map(folder: Path, name: str, n_bytes: int, digest: int) -> np.ndarray:
    """An array on disk; mapped copy-on-write, as torch requires writable memory. Raises OSError, ValueError."""
    path = folder / f"{name}.npy"
    if stamp_of(path).n_bytes != n_bytes:
        raise ValueError(f"{path}: has not the {n_bytes:,} bytes that were written")
    array: np.ndarray = np.load(path, mmap_mode="c" if n_bytes > mmap.PAGESIZE else None)  # no map is empty
    if _digest(folder, name, array) != digest:
        raise ValueError(f"{path}: its digest does not fit")
    return array


CHUNK = 1_000  # items that the tokenizer takes at once


def encode_for(spec: TrialSpec) -> EncodedCorpus:
    """The encoded corpus of a trial."""
    what = spec.task, spec.data, spec.model, spec.max_length, spec.lowercase
    encoded, mapped = _encode(*what)
    if mapped is not None and file_stamps(token_key(*what)) not in (mapped, None):
        _encode.cache_clear()  # these are other files than those that were checked
        encoded, _ = _encode(*what)
    return encoded


@lru_cache(maxsize=4)
def _encode(
    task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool
) -> tuple[EncodedCorpus, tuple[Stamp, ...] | None]:
    """The corpus, and the stamps of the files that hold it."""
    key = token_key(task_name, data, model, max_length, lowercase)
    stamps = file_stamps(key)
    encoded = cached_or_encoded(key, lambda: _tokenise(task_name, data, model, max_length, lowercase))
    return encoded, stamps or file_stamps(key)


def _tokenise(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> EncodedCorpus:
    corpus, task = read_corpus(task_name, data), TASKS[task_name]
    labels = task.label_names(corpus.train)
    extra = () if task.regression else unseen_labels([*corpus.dev, *corpus.test, *corpus.mismatched], labels)
    names = (*labels, *sorted(extra))
    how = Encoding(load_tokenizer(model, task.head), max_length, lowercase, has_token_types(model))

    def encode_split(name: str) -> Split:
        items: list[Item] = getattr(corpus, name)
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        work = SetUpWork(f"encoding {data.name} {name}", len(items), unit_of(task_name))
        examples = (task.encode(chunk, names, len(labels), how) for chunk in count_progress(chunks, work, len))
        documents = document_indices(items)
        return Split([*chain.from_iterable(examples)], None if documents is None else np.array(documents, np.int64))

    return EncodedCorpus(labels, names, how.tokenizer.pad_token_id, *map(encode_split, SPLITS))
