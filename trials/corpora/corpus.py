"""A corpus: tagged sentences or labelled texts in three splits, read from files and identified by their bytes."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from trials.corpora.broken_lines import convert_all
from trials.corpora.split_names import missing_shards
from trials.corpora.text_file import check_fits
from trials.errors import DataError
from trials.outside.plain_files import Stamp, digest_of, stamp_of
from trials.plugins.registry import Registry
from trials.spec import Columns, DataSpec, Files


class Sentence(NamedTuple):
    """Words and their tags, one tag per word.

    Attributes:
        place: `file:line` of its first word, for error messages.
        word_lines: Whether its words have a line each, from that one on.
        document: A name of the document that it is from; None where the corpus does not say.
    """

    forms: tuple[str, ...]
    tags: tuple[str, ...]
    place: str = ""
    word_lines: bool = False
    document: str | None = None

    def place_of(self, i: int) -> str:
        """`file:line` of a word, counted from 0."""
        if not self.word_lines:
            return self.place
        path, _, line = self.place.rpartition(":")
        return f"{path}:{int(line) + i}"


class Text(NamedTuple):
    """A text, or a pair of texts, and its label.

    Attributes:
        pair: The second text; None if there is only one.
        label: The class, or the number of a regression as written.
        place: `file:line`, for error messages.
        document: As of a sentence.
    """

    text: str
    pair: str | None
    label: str
    place: str = ""
    document: str | None = None


Item = Sentence | Text


def item_words(item: Item) -> tuple[str, ...]:
    """The words of a sentence, or the space-separated parts of a text and its pair."""
    return item.forms if isinstance(item, Sentence) else tuple(f"{item.text} {item.pair or ''}".split())


def labels_of(item: Item) -> tuple[str, ...]:
    """The tags of a sentence, or the one label of a text."""
    return (item.label,) if isinstance(item, Text) else item.tags


def word_counts(items: Iterable[Item]) -> Counter[str]:
    """How often each word occurs."""
    return Counter(word for item in items for word in item_words(item))


def label_counts(items: Iterable[Item]) -> Counter[str]:
    """How often each label occurs."""
    return Counter(label for item in items for label in labels_of(item))


class CorpusReader(Protocol):
    """Reads the items of a file in order."""

    def __call__(self, path: Path, columns: Columns, first: int | None = None, /) -> list[Sentence] | list[Text]:
        """All items, or the `first` ones, with text and labels in the given columns. Raises DataError."""
        ...


CORPUS_FORMATS: Registry[CorpusReader] = Registry("corpus format")

_FEWEST_FILES = 4  # of a split, that are documents
NO_WORD = "_"  # in treebanks released without their text
SPLITS = ("train", "dev", "test", "mismatched")


@dataclass(frozen=True)
class Corpus:
    """The items of each split, as its files have them; `test` and `mismatched` are empty where the corpus has none."""

    train: list[Item]
    dev: list[Item]
    test: list[Item]
    mismatched: list[Item] = field(default_factory=list)


def fingerprint(train: Files, dev: Files, test: Files, mismatched: Files = ()) -> str:
    """SHA-256 over the bytes of the splits' files, each preceded by its split's name.

    Raises:
        DataError: a file cannot be read, or is in two splits.
    """
    whole, seen = hashlib.sha256(), dict[bytes, str]()
    for split, paths in zip(SPLITS, (train, dev, test, mismatched), strict=True):
        for path in paths:
            digest = _digest(path, split)
            if digest in seen:
                raise DataError(
                    f"{path}: the {split} split is identical to {seen[digest]}; scores would be meaningless."
                )
            seen[digest] = split
            whole.update(split.encode() + digest)
    return whole.hexdigest()


def _digest(path: str, split: str) -> bytes:
    try:
        if not path.endswith(".parquet"):  # of which rows are read by group
            check_fits(Path(path), stamp_of(path).n_bytes)
        return digest_of(path)
    except OSError as error:
        raise DataError(f"{path}: the {split} split cannot be read ({error.strerror}).") from error


def load_corpus(data: DataSpec, prepare: Callable[[Corpus], Corpus] = lambda corpus: corpus) -> Corpus:
    """Read the items of a spec's files.

    Args:
        prepare: What is done to them before a part of train becomes dev.

    Raises:
        DataError: files that changed since the spec was made, or words that are all `_`.
        BrokenLinesError: the broken lines of all splits, and splits that are empty or cannot be read.
    """
    before = planned_stamps(data)
    corpus = Corpus(*convert_all(partial(_split, data), SPLITS))
    if _stamps(data) != before:
        raise DataError(f"{data.name}: its files changed while they were read. Launch again to make a new plan.")
    for split in SPLITS:
        _refuse_without_words(f"{data.name}, {split} split", getattr(corpus, split))
    corpus = prepare(corpus)
    if data.folds is not None:
        return _with_fold(corpus, data, data.folds)
    return corpus if data.held_out is None else _with_held_out(corpus, data, data.held_out)


def planned_stamps(data: DataSpec) -> list[Stamp]:
    """The stamps of a corpus's files. Raises DataError if they differ from the stamps in the spec."""
    files: list[Files] = [getattr(data, name) for name in SPLITS]
    if fingerprint(*files) != data.fingerprint:
        raise DataError(
            f"{data.name}: its files changed since the sweep was planned ({files[0][0]}, ...). Put the planned files "
            "back, or launch again to make a new plan."
        )
    return _stamps(data)


def _stamps(data: DataSpec) -> list[Stamp]:
    try:
        return [stamp_of(path) for split in SPLITS for path in getattr(data, split)]
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror}). Put the file back.") from error


def _refuse_without_words(what: str, items: list[Item]) -> None:
    sentences = [item.forms for item in items if isinstance(item, Sentence)]
    if sentences and all(word == NO_WORD for words in sentences for word in words):
        raise DataError(
            f"{what}: all {sum(map(len, sentences)):,} words are `{NO_WORD}`: the corpus is released without its text. "
            "Its README says how to get the text and merge it; use the merged files."
        )


def _with_held_out(corpus: Corpus, data: DataSpec, share: float) -> Corpus:
    """The corpus with a share of its train split as dev: the same items on every machine, equal texts on one side.

    Which item goes where depends on a digest of its words alone, so that further items move none.
    """
    dev = [item for item in corpus.train if _fraction(item) < share]
    train = [item for item in corpus.train if _fraction(item) >= share]
    if not train or not dev:
        n, side = len(corpus.train), "dev" if train else "train"
        n_words = len(item_words(corpus.train[0])) if corpus.train else 0
        cause = f" Its one item has {n_words:,} words: blank lines between sentences are missing." if n == 1 else ""
        raise DataError(
            f"{data.name}: held_out {share:g} of {n:,} train items leaves {side} empty.{cause} Give more data."
        )
    n_dev = None if data.first is None else data.first.dev
    return replace(corpus, train=train, dev=dev[:n_dev])


def _with_fold(corpus: Corpus, data: DataSpec, n_folds: int) -> Corpus:
    """The corpus with one fold of its train split as dev, and train cut to the size that is left with every fold.

    The folds are the same on every machine. Items of one document, and items of one text, are in one fold; the largest
    of these go first, each to the fold with the fewest items, and equally large ones in the order of a digest.
    """
    documents, groups = document_indices(corpus.train), dict[object, list[int]]()
    for place, item in enumerate(corpus.train):
        groups.setdefault(documents[place] if documents else item_words(item), []).append(place)
    if len(groups) < n_folds:
        what = "documents" if documents else "different items"
        raise DataError(
            f"{data.name}: `folds: {n_folds}` (--folds) of {len(groups)} {what} leaves some empty. Give fewer folds, "
            "or more data."
        )
    sizes, fold_of = [0] * n_folds, [0] * len(corpus.train)
    for places in sorted(groups.values(), key=lambda places: (-len(places), _fraction(corpus.train[places[0]]))):
        fold = sizes.index(min(sizes))
        sizes[fold] += len(places)
        for place in places:
            fold_of[place] = fold
    train = [item for item, fold in zip(corpus.train, fold_of, strict=True) if fold != data.fold]
    dev = [item for item, fold in zip(corpus.train, fold_of, strict=True) if fold == data.fold]
    n_dev = None if data.first is None else data.first.dev
    # Each seed trains on equally many items; else seeds would differ by their train size as well.
    return replace(corpus, train=train[: len(corpus.train) - max(sizes)], dev=dev[:n_dev])


def _fraction(item: Item) -> float:
    """A number from 0 to 1 that only the words of an item decide."""
    parts = (item.text, item.pair or "") if isinstance(item, Text) else item.forms
    # Words are separated, so that `ab c` and `a bc` have different digests.
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _split(data: DataSpec, name: str) -> list[Item]:
    paths: Files = getattr(data, name)
    read = CORPUS_FORMATS[data.format]
    first: int | None = getattr(data.first, name, None)
    items: list[Item] = []
    # Many files of words are a document each, unless they say their own.
    are_documents = data.format in ("columns", "conllu") and len(paths) >= _FEWEST_FILES
    are_documents = are_documents and missing_shards([*map(Path, paths)]) != []
    for path in paths:
        found = read(Path(path), data.columns, None if first is None else min(first - len(items), sys.maxsize))
        items += [item._replace(document=item.document or path) for item in found] if are_documents else found
    if paths and not items:
        raise DataError(f"{paths[0]}: the {name} split is empty. Give a file with sentences.")
    return items


def document_indices(items: Iterable[Item]) -> tuple[int, ...] | None:
    """The number of each item's document, from 0 in order of appearance; None if no document is known.

    An item whose document is not known, among others, is a document of its own. A split of one document shows nothing
    of how documents differ, so it has none.
    """
    names = [item.document for item in items]
    if names.count(names[0]) == len(names) if names else True:
        return None
    seen: dict[object, int] = {}
    return tuple(seen.setdefault((i,) if name is None else name, len(seen)) for i, name in enumerate(names))
