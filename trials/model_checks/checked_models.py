"""Check a model for a task once per content: files, tokenizer, and a training step of a small copy; and whether its
tokenizer fits a corpus: no subword beyond the table of embeddings, few words that it cannot spell.

What is found is remembered in the cache under the model's revision, and the corpus's digest, so that the next plan
costs nothing:

    <cache>/models/<key>.json     the notes on a model that passed; refusals are not remembered

The starter model is checked by the tests: a plan of it loads no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from trials.cache.node_cache import read_checked_json, write_json
from trials.corpora.corpus import SPLITS, Text, item_words
from trials.errors import ModelError
from trials.hardware.machine import TORCH_LOCK
from trials.models.family import Head
from trials.models.model_files import INDEX
from trials.outside.plain_files import digest_of, read_json
from trials.sources.cache import cache_root
from trials.spec import DataSpec, ModelSpec
from trials.starter import model_path
from trials.tasks import TASKS
from trials.tasks.task_corpus import read_corpus

VERSION = 4  # version of the checks: increment it when a model that passed might fail now
_LIBRARIES = ("transformers", "tokenizers", "torch")
FIT_VERSION = 2  # version of this check: increment it when what passed might fail now
_MOST_UNKNOWN = 0.2  # of the words of dev, of which nothing is said
_AT_ONCE = 1_000  # words
_MOST_DATA = 2 << 30  # bytes that a tokenizer may take; one of 900,000 subwords takes 1.3 GB
_MOST_S = 60  # seconds of CPU time

Encode = Callable[[Sequence[str]], Sequence[Sequence[int]]]


def check_model(spec: ModelSpec, head: Head, *, pairs: bool = False) -> tuple[str, ...]:
    """Sentences about a model that the user should read, such as the padding token chosen for it.

    Args:
        pairs: Whether the texts of the task are pairs.

    Raises:
        ModelError: a trial of it would fail; says why in one line.
    """
    if Path(spec.path) == model_path():
        return ()
    index = Path(spec.path) / INDEX  # says which shard has which weight, and is in no revision
    placed = [digest_of(index).hex()] if index.is_file() else []
    content = [VERSION, spec.revision, *placed, head, pairs, spec.pickle, *map(importlib.metadata.version, _LIBRARIES)]

    def notes() -> Iterator[str]:
        from trials.model_checks.rehearsal import rehearse

        _try_tokenizer(spec)
        yield from rehearse(spec, head, pairs=pairs)

    return remember_notes(notes, content)


def _try_tokenizer(spec: ModelSpec) -> None:
    """Raise ModelError unless a process with limits of memory and time reads the tokenizer and encodes a few words."""
    program = Path(__file__).with_name("tokenizer_trial.py")
    words = [sys.executable, "-P", str(program), spec.path, str(_MOST_DATA), str(_MOST_S)]
    if subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL).returncode < 0:
        raise ModelError(
            f"{spec.path}: its tokenizer takes more than {_MOST_DATA >> 30} GiB of memory or {_MOST_S} s for a few "
            "words. Use the tokenizer that belongs to the model."
        )


def remember_notes(notes: Callable[[], Iterable[str]], content: Sequence[object], before: str = "") -> tuple[str, ...]:
    """The notes of a check that has the same content each time; `before` is what its file's name begins with."""
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]
    path = cache_root() / "models" / f"{before}{key}.json"
    with contextlib.suppress(OSError, ValueError):
        return tuple(map(str, read_checked_json(path, key)))
    with TORCH_LOCK:
        found = tuple(notes())
    with contextlib.suppress(OSError):  # the next plan checks again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, found, key)
    return found


def check_fit(spec: ModelSpec, task: str, data: DataSpec, *, lowercase: bool) -> tuple[str, ...]:
    """Sentences about a model's tokenizer and the words of a corpus that the user should read.

    Raises:
        ModelError: A word becomes a subword that the model has no row for, or no word of dev can be spelled.
    """
    content = [FIT_VERSION, spec.revision, data.fingerprint, data.model_dump(mode="json")["columns"], task, lowercase]
    return remember_notes(lambda: _notes(spec, task, data, lowercase=lowercase), content, "fit-")


def _notes(spec: ModelSpec, task: str, data: DataSpec, *, lowercase: bool) -> Iterator[str]:
    corpus = read_corpus(task, data)
    encode, unknown, n_tokens = _tokenizer(spec, TASKS[task].head)
    counts = {split: Counter[str]() for split in SPLITS}
    for split, seen in counts.items():
        for item in getattr(corpus, split):
            seen.update(word.lower() if lowercase else word for word in item_words(item))
    words = sorted({word for split in counts.values() for word in split})
    n_rows, unspelled = _n_rows(spec), set[str]()
    for start in range(0, len(words), _AT_ONCE):
        some = words[start : start + _AT_ONCE]
        for word, ids in zip(some, encode(some), strict=True):
            if n_rows and max(ids, default=0) >= n_rows:
                raise ModelError(
                    f"{spec.path}: its tokenizer gives {word!r:.60}, a word of {data.name}, the number {max(ids):,}, "
                    f"but its table of embeddings has {n_rows:,} rows. Where words were added to the tokenizer, call "
                    "`resize_token_embeddings(len(tokenizer))` of the model, train, and save both."
                )
            if unknown is not None and unknown in ids:
                unspelled.add(word)
    total, n = counts["dev"].total(), sum(n for word, n in counts["dev"].items() if word in unspelled)
    what = "words" if not isinstance(corpus.train[0], Text) else "words (what spaces separate)"
    if total and n == total:
        raise ModelError(
            f"{spec.path}: all {total:,} {what} of {data.name}'s dev split are unknown to its tokenizer, which has "
            f"{n_tokens:,} subwords. Use the tokenizer that belongs to the model, or a model of this language."
        )
    if n > _MOST_UNKNOWN * total:
        capitals = [word for word in unspelled if word != word.lower()]
        small = zip(capitals, encode([word.lower() for word in capitals]) if capitals else (), strict=True)
        n_small = sum(counts["dev"][word] for word, ids in small if unknown not in ids)
        advice = "Use a model of this language."
        if 2 * n_small > n:
            advice = "Most of them it knows in small letters: set `lowercase: true`."
        yield (
            f"{100 * n / total:.0f} % of the {what} of {data.name}'s dev split are unknown to its tokenizer: the model "
            f"sees the same [UNK] for each. {advice}"
        )


def _n_rows(spec: ModelSpec) -> int:
    config = read_json(Path(spec.path) / "config.json")
    return int(config.get("vocab_size") or config.get("text_config", {}).get("vocab_size") or 0)


def _tokenizer(spec: ModelSpec, head: Head) -> tuple[Encode, int | None, int]:
    """What encodes words, the number of what it cannot spell, and how many subwords it has."""
    if Path(spec.path) == model_path():  # whose plan loads no torch
        from tokenizers import Tokenizer

        starter = Tokenizer.from_file(str(model_path() / "tokenizer.json"))
        encode: Encode = lambda words: [  # noqa: E731
            each.ids for each in starter.encode_batch(list(words), add_special_tokens=False)
        ]
        return encode, starter.token_to_id("[UNK]"), starter.get_vocab_size()
    from trials.models.load import read_tokenizer

    other = read_tokenizer(spec, head)
    encode = lambda words: other(list(words), add_special_tokens=False)["input_ids"]  # noqa: E731
    return encode, other.unk_token_id, len(other)
