"""Labels that are none, and spellings of one label: what is read as the same, with a count, and what is asked about.

Only what can be read in one way is changed: marks that nobody sees, letters of another script that look the same, whole
numbers with `.0`, and a spelling that only capitals tell from another where all other labels are written like that one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trials.corpora.column_names import NO_PAIR, REJECTED
from trials.corpora.corpus import SPLITS, Corpus, Item, Sentence, Text, labels_of
from trials.errors import DataError, UnclearError, quote, unknown_name

_NONE = ("", "-", "NA", "N/A", "n/a", "nan", "NaN", "NULL", "null", "None", "?", "-1", "-1.0", REJECTED)
_RARE = 0.1  # of the train texts: more may be a class
_COMMON = 0.2  # -1 beside 0 and 1: more are a class
_MANY = 4  # whole numbers beside -1: a scale
# Cyrillic and Greek letters beside the Latin ones that they look like.
_SAME = str.maketrans(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430"
    "\u0435\u0455\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0391\u0392\u0395\u0396\u0397\u0399\u039a"
    "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf",
    "ABESIJKMHOPCTYXaesijopcyxABEZHIKMNOPTYXo",
)


@dataclass(frozen=True)
class CleanCorpus:
    """A corpus with one spelling for each label and without texts that have none.

    Attributes:
        notes: What was changed, a sentence each.
    """

    corpus: Corpus
    notes: tuple[str, ...]


def clean_labels(corpus: Corpus, name: str, *, regression: bool, label_none: str | None = None) -> CleanCorpus:
    """The corpus with labels as they are meant.

    Args:
        name: Of the corpus, for messages.
        regression: Whether labels are numbers, which stay as they are written.
        label_none: The label that says that there is none; `NO_PAIR` where each is a class.

    Raises:
        UnclearError: A label may be a class or none.
        DataError: Two labels may be one or two.
    """
    splits = {split: list[Item](getattr(corpus, split)) for split in SPLITS}
    counts = Counter(label for items in splits.values() for item in items for label in labels_of(item))
    notes = list[str]()
    if not regression:
        spellings = _spellings(counts)
        _refuse_twins(name, counts, spellings)
        if spellings:
            splits = {split: [_spell(item, spellings) for item in items] for split, items in splits.items()}
            n = sum(counts[label] for label in spellings)
            shown = ", ".join(f"{quote(label)} as {quote(read)}" for label, read in list(spellings.items())[:3])
            notes.append(f"{n:,} labels are read in another spelling: {shown}{', ...' if len(spellings) > 3 else ''}.")
    train = Counter(item.label for item in splits["train"] if isinstance(item, Text))
    every = {item.label for items in splits.values() for item in items if isinstance(item, Text)}
    if label_none is not None and label_none not in {*every, NO_PAIR}:
        raise DataError(f"{name}: label_none (--label-none): {unknown_name(label_none, sorted(every), in_file=True)}")
    for none in sorted(every & {*_NONE, label_none}):
        is_asked = none and label_none is not None
        if none != label_none if is_asked else not _is_none(name, none, train, splits, regression=regression):
            continue
        kept = {
            split: [item for item in items if getattr(item, "label", "O") != none] for split, items in splits.items()
        }
        sizes = {split: (len(items) - len(kept[split]), len(items)) for split, items in splits.items()}
        sizes_part = ", ".join(f"{n:,} of {total:,} in {split}" for split, (n, total) in sizes.items() if n)
        shown = {"": "(empty)", REJECTED: REJECTED}.get(none, f"({quote(none)})")
        notes.append(f"texts without a label {shown} are left out: {sizes_part}.")
        splits = kept
    return CleanCorpus(replace(corpus, **splits), tuple(notes))


def _spell(item: Item, spellings: Mapping[str, str]) -> Item:
    if isinstance(item, Sentence):
        return item._replace(tags=tuple(spellings.get(tag, tag) for tag in item.tags))
    return item._replace(label=spellings.get(item.label, item.label))


def _visible(label: str) -> str:
    """A label without invisible characters, with plain spaces and none at its ends."""
    marked = "".join(c for c in label if unicodedata.category(c) != "Cf")
    return " ".join(marked.split())


def _spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """What is read for each label that is not as it is meant."""
    read = {label: _visible(label) for label in counts}
    plain = {label for label in read.values() if label.isascii()}
    for label, seen in read.items():
        if not seen.isascii() and (latin := seen.translate(_SAME)) in plain:
            read[label] = latin
    if all(re.fullmatch(r"-?\d+(\.0*)?", label) for label in read.values() if label not in _NONE):
        read |= {label: seen.partition(".")[0] for label, seen in read.items()}
    read_counts = Counter[str]()
    for label, seen in read.items():
        read_counts[seen] += counts[label]
    for folded in _twins(read_counts):
        commonest = max(folded, key=lambda label: read_counts[label])
        others = [label for label in read_counts if label not in folded and _is_word(label)]
        how = next((way for way in _CASES if way(commonest) and all(map(way, others))), None)
        if how is not None and others and not any(how(label) for label in folded if label != commonest):
            read |= {label: commonest for label, seen in read.items() if seen in folded}
    return {label: meant for label, meant in read.items() if label != meant}


_CASES: Sequence[Callable[[str], bool]] = (str.isupper, str.islower, str.istitle)


def _twins(labels: Mapping[str, int]) -> list[list[str]]:
    """The labels that only capitals tell apart."""
    folded = dict[str, list[str]]()
    for label in labels:
        folded.setdefault(label.casefold(), []).append(label)
    return [each for each in folded.values() if len(each) > 1 and _is_word(each[0])]


def _is_word(label: str) -> bool:
    return len(label) > 2 and re.sub(r"[-_ ]", "", label).isalpha()


def _refuse_twins(name: str, counts: Mapping[str, int], spellings: Mapping[str, str]) -> None:
    spelled = {spellings.get(label, label): n for label, n in counts.items()}
    for twins in _twins(spelled):
        listed = " and ".join(f"{quote(label)} ({spelled[label]:,})" for label in twins)
        raise DataError(
            f"{name}: are the labels {listed} one or two? Only capitals tell them apart. Write one like the other, or "
            "give them different names."
        )


def _is_none(
    name: str, label: str, train: Mapping[str, int], splits: Mapping[str, Sequence[Item]], *, regression: bool
) -> bool:
    """Whether a label means that an item has no label. Raises UnclearError if the data do not tell."""
    others = {other for other in train if other not in _NONE or other == "-1" != label}
    share = train.get(label, 0) / (sum(train.values()) or 1)
    if label in ("", REJECTED) or regression:
        return not label.startswith("-1")
    numbers = sorted(int(other) for other in others if re.fullmatch(r"-?\d+", other))
    is_rare = share < _RARE
    if label.startswith("-1") and len(numbers) == len(others):
        if len(numbers) < 2 or numbers[0] < 0 or len(numbers) >= _MANY or (numbers == [0, 1] and share > _COMMON):
            return False  # one of a scale: -1, 0 and 1 may be negative, neutral and positive
        is_clear = is_rare and numbers == [0, 1, 2]
    elif label == "-" and "+" in others:
        return False
    else:
        codes = label.isalpha() and all(other.isupper() and len(other) == len(label) for other in others)
        is_clear = is_rare and len(others) > 1 and not codes  # NA is a country beside DE and FR
    if not is_clear:
        listed = ", ".join(quote(other) for other in sorted(others)[:5])
        left = {split: {*map(labels_of, items)} - {(label,)} for split, items in splits.items()}
        reads = len(left["train"]) > 1 and all(left[split] for split, items in splits.items() if items)
        ways = [*([{"label_none": label}] if reads else []), {"label_none": NO_PAIR}]
        raise UnclearError(
            f"{name}: is the label {quote(label)} beside {listed} a class, or is it none? {share:.0%} of the train "
            f"texts have it. With `label_none: {NO_PAIR}` it is a class.",
            ways if is_rare else ways[::-1],
        )
    return True
