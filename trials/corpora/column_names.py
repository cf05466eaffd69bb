"""The names that columns of tables have as a rule, and whether a first row names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trials.corpora.cell_evidence import LONGEST_CLASS, TagEvidence, are_classes, is_number
from trials.corpora.table_rows import printed_list

NO_PAIR = "none"  # in place of the column of second texts, or of documents: there is none
REJECTED = "(rejected)"  # in place of a label that an annotator has rejected or left open
MOST_TAGS = 60  # most different tags in a column of tags other than span tags
PAIRS = (
    ("sentence1", "sentence2"), ("question1", "question2"), ("premise", "hypothesis"), ("question", "sentence"),
    ("text1", "text2"), ("text_a", "text_b"), ("sentence_a", "sentence_b"), ("text", "text2"), ("s1", "s2"),
    ("sent1", "sent2"), ("#1 string", "#2 string"), ("query", "passage"), ("query", "document"),
    ("question", "passage"), ("question", "context"), ("question", "answer"), ("claim", "evidence"),
    ("string1", "string2"), ("context", "response"), ("headline", "body"),
)  # fmt: skip
ALIASES = {
    "text": ("text", "sentence", "sentence1", "premise", "question1", "question", "review", "comment", "tweet",
             "utterance", "utt", "content", "body", "message", "document", "text_a"),
    "label": ("label", "labels", "class", "category", "target", "sentiment", "stance", "intent", "polarity",
              "gold_label", "y", "is_duplicate", "score", "similarity", "quality", "stars", "rating"),
    "tokens": ("tokens", "words", "forms", "sentence", "text"),
    "tags": ("ner_tags", "tags", "pos_tags", "upos", "labels", "ner", "bio_tags", "bio", "iob"),
}  # fmt: skip
OF_A_WORD = {"word", "token", "form", "words", "tokens"}
KNOWN_NAMES = {
    *OF_A_WORD, "tag", "pos", "ner", "sentence #",
    *(name for names in ALIASES.values() for name in names), *(name for pair in PAIRS for name in pair),
}  # fmt: skip


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether a first row names the columns: by a known name, by words above numbers or printed lists, or above classes
    or tags that lack it.
    """
    for column, cell in enumerate(first):
        below = [row[column] for row in rest if len(row) > column]
        tags = Counter(tag for cells in below for tag in cells.split(" "))
        if cell not in below and (
            cell.strip().lower() in KNOWN_NAMES
            or (below and all(map(is_number, below)) and not is_number(cell))
            or (below and printed_list(cell) is None and all(printed_list(each) is not None for each in below))
            or (are_classes(below) and all(len(c) <= LONGEST_CLASS for c in first))
            or (len(tags) <= MOST_TAGS and tags.total() >= 2 * len(below) and TagEvidence.from_counts(tags).are_spans
                and {*cell.split(" ")}.isdisjoint(tags))
        ):  # fmt: skip
            return True
    return False
