"""A corpus: tagged sentences or labelled texts in three splits, read from files and identified by their bytes."""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from trials.datasets.text_file import convert_all, is_whole
from trials.errors import DataError
from trials.outside.plain_files import NotPlainError, Stamp, digest_of, stamp_of
from trials.plugins.loading import Registry
from trials.settings import Columns, DataSpec, Files


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
    """The words of a sentence; of a text and its pair, what spaces separate."""
    return item.forms if isinstance(item, Sentence) else tuple(f"{item.text} {item.pair or ''}".split())


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
        return digest_of(path)
    except NotPlainError as error:
        raise DataError(f"{path}: the {split} split is {error.strerror}. Save it as a file of its own.") from error
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
    """The stamps of a corpus's files. Raises DataError if these are not those of the spec."""
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
    """The corpus with one fold of its train split as dev, and as much of the others as every fold leaves.

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
    return replace(corpus, train=train[: len(corpus.train) - max(sizes)], dev=dev[:n_dev])


def _fraction(item: Item) -> float:
    """A number from 0 to 1 that only the words of an item decide."""
    parts = (item.text, item.pair or "") if isinstance(item, Text) else item.forms
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _split(data: DataSpec, name: str) -> list[Item]:
    paths: Files = getattr(data, name)
    read = CORPUS_FORMATS[data.format]
    first: int | None = getattr(data.first, name, None)
    items: list[Item] = []
    # Many files of words are a document each, unless they say their own.
    are_documents = data.format in ("columns", "conllu") and len(paths) >= _FEWEST_FILES
    are_documents = are_documents and not is_whole([*map(Path, paths)])
    for path in paths:
        found = read(Path(path), data.columns, None if first is None else min(first - len(items), sys.maxsize))
        items += [item._replace(document=item.document or path) for item in found] if are_documents else found
    if paths and not items:
        raise DataError(f"{paths[0]}: the {name} split is empty. Give a file with sentences.")
    return items


# Which document each sentence is from: a recording, an article, a thread. Sentences of one resemble each other.
#
# Of files whose lines are words, documents are known by comments (`# newdoc` of CoNLL-U), by `-DOCSTART-` (CoNLL-2003),
# or by the sentences' ids where these name a document and then count its sentences, as most treebanks of UD do.

DOCUMENT = "-DOCSTART-"  # a line of its own between the documents of CoNLL-2003
# `# newdoc id = X`, `#begin document (X); part 000` of CoNLL-2012, `# doc_id = X` before each sentence; and ids.
_comment = re.compile(r"#\s*(newdoc|begin document|doc_?id|document_id|sent_id)\b(?:\s+id)?\s*=?\s*(.*?)\s*$")
# How ids end: in the numbers of paragraph and sentence (-p2s1), in one number, or in two (5.150, or a range 006-014).
_ENDS = (
    re.compile(r"(.+?)[-_.,/]*p[-_.]?(\d+)[a-z]?[-_.]?s[-_.]?(\d+)[a-z]?"),
    re.compile(r"(.*?)(\d+)[a-z]?"),
    re.compile(r"(.*?)(\d+)[-.,_](\d+)[a-z]?"),
)
_MOST = 0.95  # of the ids end alike; the others' sentences are documents of their own
_FOLLOW = 0.5  # of the sentences come right after the one before: the ids count what is in a document
_no_document = re.compile(r"(train|training|dev|devel|test|valid|validation|s|sent|sentence|id)?", re.IGNORECASE)


def documents_at(path: Path, lines: Sequence[str], starts: Sequence[int]) -> list[str | None]:
    """A name of the document of each sentence of a file; None for all where the file does not say.

    Args:
        lines: The lines of the file.
        starts: The line of the first word of each sentence, counted from 1, ascending.
    """
    breaks, newdocs, ids = list[int](), dict[int, str](), dict[int, str]()
    for number, line in enumerate(lines, start=1):
        if line.startswith("#") and (match := _comment.match(line)):
            (ids if match[1] == "sent_id" else newdocs)[number] = match[2]
        elif DOCUMENT in line and DOCUMENT in line.split()[:2]:
            breaks.append(number)
    if breaks:
        return [f"{path}:{bisect_right(breaks, start)}" for start in starts]
    if newdocs and starts and min(newdocs) < starts[0]:  # where the first sentence has none, others may be missing
        at = _last_before(newdocs, starts)
        return [newdocs[number] or f"{path}:{number}" for number in at if number is not None]
    numbers = _last_before(ids, starts)
    if None in numbers or len({*numbers}) < len(numbers):
        return [None] * len(starts)
    return _documents_of_ids([ids[number] for number in numbers if number is not None])


def _last_before(marks: Mapping[int, str], starts: Sequence[int]) -> list[int | None]:
    """The line of the last mark before each sentence's first word."""
    at = sorted(marks)
    places = (bisect_right(at, start) for start in starts)
    return [at[place - 1] if place else None for place in places]


def _documents_of_ids(ids: Sequence[str]) -> list[str | None]:
    """The part of each id that names its document; None for all where the ids do not show it.

    They show it where they end in a number that goes up by one from most sentences to the next of the same document,
    and where there are several documents with several sentences: ids that only count (`dev-s12`), and ids of sentences
    that were drawn one by one from larger sources (`frwiki_00662`, `frwiki_00711`), name none.
    """
    for end in _ENDS:
        matches = [end.fullmatch(sent_id) for sent_id in ids]
        parts = [(match[1], tuple(map(int, match.groups()[1:]))) for match in matches if match is not None]
        names = {name for name, _ in parts}
        if len(parts) < _MOST * len(ids) or all(_no_document.fullmatch(_letters(name)) for name in names):
            continue
        following = sum(a == b and _follows(before, after) for (a, before), (b, after) in pairwise(parts))
        if 1 < len(names) < len(parts) and following >= _FOLLOW * (len(parts) - len(names)):
            return [None if match is None else match[1] for match in matches]
    return [None] * len(ids)


def _letters(name: str) -> str:
    return re.sub(r"[\d\W_]+", "", name.removesuffix("s").rstrip("-_."))


def _follows(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the numbers at the end of an id come right after others: the next one, the next paragraph's, or a range
    that begins where the other ends.
    """
    if len(after) == 1:
        return after[0] in (before[0], before[0] + 1)  # 6a, 6b, 7
    return after[-1] == before[-1] + 1 or after[0] in (before[0] + 1, before[-1] + 1)


def document_indices(items: Iterable[Item]) -> tuple[int, ...] | None:
    """The document of each item of a split, from 0 in the order in which they appear; None where none is known.

    An item whose document is not known, among others, is a document of its own. A split of one document shows nothing
    of how documents differ, so it has none.
    """
    names = [item.document for item in items]
    if names.count(names[0]) == len(names) if names else True:
        return None
    seen: dict[object, int] = {}
    return tuple(seen.setdefault((i,) if name is None else name, len(seen)) for i, name in enumerate(names))


# Check a corpus before training: sizes, labels, lengths, and sentences that occur in two splits.

# Upper bounds of the histogram's bins, in words.
LENGTHS = (5, 10, 20, 40, 80)


@dataclass(frozen=True)
class SplitCheck:
    """Counts of one split.

    Attributes:
        words: Number of words; in texts, of parts between spaces.
        labels: How often each label occurs, the most frequent first.
        lengths: Number of items of up to 5, 10, 20, 40, 80 words, and of more.
        repeated: Items with the same text as another item of the split.
        vocabulary: Number of different words.
        one_word: Items of a single word.
        commonest: The most frequent word, and how often it occurs.
        documents: How many documents the items are of; 0 where the corpus does not say.
    """

    items: int
    words: int
    labels: dict[str, int]
    lengths: tuple[int, ...]
    longest: int
    repeated: int
    vocabulary: int
    one_word: int
    commonest: tuple[str, int]
    documents: int = 0


@dataclass(frozen=True)
class CorpusCheck:
    """Counts of a corpus.

    Attributes:
        splits: By split; splits that the corpus lacks are left out.
        shared: (split, other split) -> how many items of the first also occur, word for word, in the second.
        shared_documents: Likewise how many documents of the first are also in the second.
        unseen: split -> labels that do not occur in train, and how often they occur.
    """

    splits: dict[str, SplitCheck]
    shared: dict[tuple[str, str], int]
    shared_documents: dict[tuple[str, str], int]
    unseen: dict[str, dict[str, int]]


def check_corpus(corpus: Corpus) -> CorpusCheck:
    """Count everything. The numbers of a regression are counted as labels, as they are written."""
    items: dict[str, list[Item]] = {name: getattr(corpus, name) for name in SPLITS if getattr(corpus, name)}
    texts = {name: [item_words(item) for item in split] for name, split in items.items()}
    splits = {name: check_split(split) for name, split in items.items()}
    pairs = [
        (name, other)
        for name, other in (("dev", "train"), ("test", "train"), ("mismatched", "train"), ("test", "dev"))
        if name in texts and other in texts
    ]
    insides = {name: set(of_split) for name, of_split in texts.items()}
    shared = {(name, other): sum(text in insides[other] for text in texts[name]) for name, other in pairs}
    documents = {name: {item.document for item in split} - {None} for name, split in items.items()}
    shared_documents = {(name, other): len(documents[name] & documents[other]) for name, other in pairs}
    train_labels = splits["train"].labels
    unseen = {
        name: {label: n for label, n in split.labels.items() if label not in train_labels}
        for name, split in splits.items()
        if name != "train"
    }
    return CorpusCheck(splits, shared, shared_documents, unseen)


def check_split(items: list[Item]) -> SplitCheck:
    """Count one split, which has items."""
    texts = [item_words(item) for item in items]
    word_counts = Counter(word for text in texts for word in text)
    labels = Counter(label for item in items for label in ((item.label,) if isinstance(item, Text) else item.tags))
    bars = Counter(next((i for i, bound in enumerate(LENGTHS) if len(text) <= bound), len(LENGTHS)) for text in texts)
    return SplitCheck(
        items=len(items),
        words=sum(map(len, texts)),
        labels=dict(labels.most_common()),
        lengths=tuple(bars[i] for i in range(len(LENGTHS) + 1)),
        longest=max(map(len, texts)),
        repeated=len(texts) - len(set(texts)),
        vocabulary=len(word_counts),
        one_word=sum(len(text) == 1 for text in texts),
        commonest=word_counts.most_common(1)[0],
        documents=len(set(document_indices(items) or ())),
    )
