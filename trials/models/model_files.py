"""The files of a model's folder that determine results: names, digest, and whether they are the planned ones.

A spec's `revision` is a digest over these files. Whoever reads them, in whatever process, does so inside
`planned_files`: a folder that was edited, or whose model was put back, trains no trial of another revision.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from trials.errors import ModelError, quote
from trials.outside.plain_files import (
    MOST_CONTENT,
    MOST_TEXT,
    MOST_VOCABULARY,
    Stamp,
    digest_of,
    open_plain,
    read_json,
    stamp_of,
)
from trials.spec import ModelSpec

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
ADAPTER = "adapter_config.json"  # from_pretrained would load it, and what it names, beside the weights
TOKENIZER = "tokenizer.json"
TOKENIZER_FILES = (TOKENIZER, "vocab.txt", "vocab.json", "spm.model", "sentencepiece.bpe.model", "spiece.model")
_TOKENIZER_CONFIG, _SPECIALS = "tokenizer_config.json", "special_tokens_map.json"
_DECLARING = ("config.json", INDEX, _TOKENIZER_CONFIG, _SPECIALS)
_IDENTITY_FILES = ("config.json", WEIGHTS, _TOKENIZER_CONFIG, *TOKENIZER_FILES, "merges.txt", "added_tokens.json")
_INSIDE = re.compile(r"[\w-][\w.-]*\.safetensors")  # a file name beside the index
# Vocabularies that transformers reads where there is no tokenizer.json.
_VOCABULARY = re.compile(r"vocab.*|.*\.(model|spm|tokenizer|codes)|(merges|dict)\..*|(tekken|normalizer|emoji)\.json")
_VERSIONED = re.compile(
    r"tokenizer\..+\.json"
)  # tokenizer.json for a version of transformers, if the configuration says
# The tokens that classes of tokenizers assume where no file names any.
_ASSUMED = {
    "cls_token": ("[CLS]", "<s>"), "sep_token": ("[SEP]", "</s>"), "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"), "mask_token": ("[MASK]", "<mask>"), "bos_token": ("<s>",), "eos_token": ("</s>",),
}  # fmt: skip


def is_shard(name: object) -> bool:
    """Whether a name in an index of weights is a safetensors file in the index's own folder."""
    return isinstance(name, str) and _INSIDE.fullmatch(name) is not None


def revision_of(folder: Path, *, pickle: bool) -> str:
    """SHA-256 over names and bytes of the files that determine results.

    Raises:
        ModelError: one is missing, or not a plain file of bounded size.
    """
    check_plain(folder)
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ModelError(f"{folder}: has no tokenizer ({', '.join(TOKENIZER_FILES)}). Save it beside the weights.")
    digest = hashlib.sha256()
    for name in identity_files(folder, pickle=pickle):
        try:
            digest.update(name.encode() + digest_of(folder / name))
        except OSError as error:
            raise _unreadable(folder / name, error) from error
    return digest.hexdigest()


def identity_files(folder: Path, *, pickle: bool) -> list[str]:
    """Names of the files that determine results. Raises ModelError if a weights file is missing."""
    names = [*_IDENTITY_FILES, *([PICKLE] if pickle else shards(folder)), *_further_tokenizer_files(folder)]
    return [name for name in names if (folder / name).is_file()]


def _further_tokenizer_files(folder: Path) -> list[str]:
    """Files that older versions did not count, where the tokenizer reads them and they are not what it does anyway."""
    config = _object_in(folder / _TOKENIZER_CONFIG)
    files = [_SPECIALS] if _specials_matter(folder, config) else []
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if "fast_tokenizer_files" in config:
        files += filter(_VERSIONED.fullmatch, names)
    if TOKENIZER not in names:
        files += [name for name in names if _VOCABULARY.fullmatch(name) and name not in _IDENTITY_FILES]
    return files


def _specials_matter(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether special_tokens_map.json names a token that the other files do not, and that transformers then adds."""
    if "added_tokens_decoder" in config:  # then the file is not read
        return False
    files = [folder / name for name in (_SPECIALS, TOKENIZER, _TOKENIZER_CONFIG)]
    try:
        return _adds_tokens(folder, tuple(stamp_of(path) for path in files if path.is_file()))
    except OSError:
        return True


@lru_cache(maxsize=16)
def _adds_tokens(folder: Path, stamps: tuple[Stamp, ...]) -> bool:
    if not (folder / _SPECIALS).is_file():
        return False
    try:
        config, specials = _object_in(folder / _TOKENIZER_CONFIG), read_json(folder / _SPECIALS)
        tokens = read_json(folder / TOKENIZER, MOST_VOCABULARY)["added_tokens"]
        special_tokens = {token["content"] for token in tokens if token["special"]}
        return not all(_is_implied(role, value, config, special_tokens) for role, value in specials.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return True  # no tokenizer.json, or an unusual map


def _is_implied(role: str, value: object, config: Mapping[str, Any], special_tokens: Collection[str]) -> bool:
    """Whether a tokenizer has what a role's token or list of tokens says without that."""
    if isinstance(value, list):
        return all(_text(token) in special_tokens for token in value)
    text, configured = _text(value), _text(config.get(role))
    return text in special_tokens and (text == configured or (configured is None and text in _ASSUMED.get(role, ())))


def _text(token: object) -> object:
    """The characters of a token, which may be an object with further attributes."""
    return token.get("content") if isinstance(token, dict) else token


def _object_in(path: Path) -> Mapping[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = read_json(path)
        return content if isinstance(content, dict) else {}
    return {}


def shards(folder: Path) -> list[str]:
    """The files of sharded weights; empty if they are one file. Raises ModelError."""
    if not (folder / INDEX).is_file():
        return []
    try:
        index = read_json(folder / INDEX)
        names = sorted({str(name) for name in index["weight_map"].values()})
        index["metadata"].keys()  # transformers writes into it
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{folder / INDEX}: not a readable index of weights ({error}).") from error
    for name in names:
        if not is_shard(name):
            raise ModelError(
                f"{folder / INDEX}: {quote(name)} is not a weights file in this folder. Use another model."
            )
    lost = [name for name in names if not (folder / name).is_file()]
    if len(lost) == len(names) and (folder / WEIGHTS).is_file():  # the index is stale, and no library asks it
        return []
    if lost:
        raise ModelError(f"{folder}: {lost[0]} is missing, which {INDEX} names. Fetch the model again.")
    return names


@contextmanager
def planned_files(spec: ModelSpec) -> Iterator[Mapping[str, Stamp]]:
    """The block reads a model's files, which are the spec's before it and the same ones after it.

    It gets their names and stamps. Stamps are compared first; bytes only where this process has not read them since
    they changed.

    Raises:
        ModelError: they are others; names the folder and what to do.
    """
    folder = Path(spec.path)
    before = _planned_stamps(folder, spec)
    try:
        yield before
    except Exception:
        _planned_stamps(folder, spec)  # a file that was edited or deleted meanwhile is the better reason
        raise
    if _planned_stamps(folder, spec) != before:
        raise ModelError(f"{folder}: the model's files changed while they were read. {_WAY_OUT}")


_WAY_OUT = "Put back the files that were planned, or launch again to plan with those that are there."


def _planned_stamps(folder: Path, spec: ModelSpec) -> dict[str, Stamp]:
    if not folder.is_dir():
        raise ModelError(f"{folder}: the model's folder is not there any more. Put it back and launch again.")
    if (folder / ADAPTER).is_file():
        raise ModelError(f"{folder / ADAPTER}: was added to the model after the sweep was planned. {_WAY_OUT}")
    try:
        if revision_of(folder, pickle=spec.pickle) == spec.revision:
            names = [*identity_files(folder, pickle=spec.pickle), INDEX]
            return {name: stamp_of(folder / name) for name in names if (folder / name).is_file()}
    except (ModelError, OSError) as error:
        raise ModelError(f"{error} The model was whole when the sweep was planned. {_WAY_OUT}") from error
    raise ModelError(
        f"{folder}: its files are not those that the sweep was planned with (their digest differs from the planned "
        f"{spec.revision[:12]}). {_WAY_OUT}"
    )


def check_plain(folder: Path) -> None:
    """Raise ModelError unless every name in a model's folder leads to a plain file of bounded size, or to a folder.

    The library that loads the model opens files by rules of its own.
    """
    try:
        names = sorted(folder.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from error
    for path in names:
        is_read = _VOCABULARY.fullmatch(path.name) or path.suffix in (".json", ".txt", ".model", ".jinja")
        most = MOST_VOCABULARY if is_read else MOST_CONTENT
        try:
            stamp = stamp_of(path, MOST_TEXT if path.name in _DECLARING else most)
            if path.suffix == ".safetensors" and stamp.n_bytes > MOST_TEXT:
                _check_header(path, stamp.n_bytes)
        except (IsADirectoryError, FileNotFoundError):  # a link to nothing is not there
            continue
        except OSError as error:
            raise _unreadable(path, error) from error


def _check_header(path: Path, n_bytes: int) -> None:
    """Raise ModelError unless the header of safetensors, whose length comes first, is of bounded size and inside."""
    with open_plain(path, MOST_CONTENT) as file:
        length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MOST_TEXT, n_bytes - 8):
        what = f"{length:,} bytes in a file of {n_bytes:,}, and may have {MOST_TEXT:,}"
        raise ModelError(f"{path}: its header has {what}. Fetch or copy it again.")


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path}: cannot be read ({error.strerror or error}).")
