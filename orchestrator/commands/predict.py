"""Tag text or CoNLL-U, or classify lines, with an exported model.

permafrost predict my-tagger text.txt
permafrost predict my-tagger dev.conllu -o tagged.conllu
echo "A fine film." | permafrost predict my-classifier -
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.config.console import DebugOption, reported
from trials.datasets.text_file import normalised, read_lines
from trials.errors import DataError
from trials.escaping.untrusted_text import escaped, quoted

if TYPE_CHECKING:
    from trials.export import LabelPrediction, Predictor

STDIN = "-"
# Numbers with decimal points, words with inner apostrophes and hyphens, and each other visible character by itself.
_WORDS = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['\u2019\-]\w+)*|[^\w\s]")
_NO_WORD = re.compile(r"#.*|\d+[-.]\d+", re.DOTALL)  # starts of CoNLL-U lines that are copied unchanged


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder written by `permafrost export-model`.")],
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="Text with one sentence per line, CoNLL-U, or - for stdin.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The output file.", show_default="stdout")
    ] = None,
    split_at_spaces: Annotated[
        bool, typer.Option("--split-at-spaces", help="Split at spaces only; do not separate punctuation.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Predict with a model. CoNLL-U keeps its format, with predicted tags; text becomes one word and its tag per line.

    A classifier writes the label, its probability and the text, separated by tabs.

    Examples:
        permafrost predict my-tagger text.txt

        permafrost predict my-tagger dev.conllu -o tagged.conllu
    """
    with reported(debug=debug):
        lines = _stdin_lines() if source == STDIN else read_lines(Path(source))

        from trials.export import Predictor

        predictor = Predictor(model)
        conllu = source.removesuffix(".gz").endswith(".conllu")
        if not predictor.tags_words:
            predictions = classified(predictor, lines)
        elif conllu:
            predictions = tagged_conllu(predictor, source, lines)
        else:
            predictions = tagged_text(predictor, lines, split_at_spaces=split_at_spaces)
        _write("".join(f"{line}\n" for line in predictions), out)


def classified(predictor: Predictor, lines: Sequence[str]) -> list[str]:
    """`label TAB probability TAB text` for every line that is not blank."""
    texts = [line for line in lines if line.strip()]
    return [
        f"{escaped(p.label)}\t{_probability(p)}\t{text}" for text, p in zip(texts, predictor.texts(texts), strict=True)
    ]


def tagged_text(predictor: Predictor, lines: Sequence[str], *, split_at_spaces: bool) -> list[str]:
    """`word TAB tag` on each line, with an empty line after each sentence."""
    sentences = [line.split() if split_at_spaces else _WORDS.findall(line) for line in lines]
    sentences = [words for words in sentences if words]
    tagged: list[str] = []
    for words, labels in zip(sentences, predictor.words(sentences), strict=True):
        tagged += [f"{word}\t{escaped(p.label)}" for word, p in zip(words, labels, strict=True)] + [""]
    return tagged


def tagged_conllu(predictor: Predictor, source: str, lines: Sequence[str]) -> list[str]:
    """The same lines with predicted tags: in UPOS, or as `NER=` in MISC for a model of named entities."""
    rows = [line.split("\t") for line in lines]
    words = _words(source, rows)
    for numbers, labels in zip(words, predictor.words([[rows[n][1] for n in ns] for ns in words]), strict=True):
        for number, p in zip(numbers, labels, strict=True):
            _set_tag(rows[number], p, entities=predictor.task == "ner")
    return ["\t".join(row) for row in rows]


def _words(source: str, rows: Sequence[list[str]]) -> list[list[int]]:
    """The row numbers of each sentence's words."""
    words: list[list[int]] = [[]]
    for number, row in enumerate(rows):
        if not "".join(row).strip():
            words.append([])
        elif row[0].isdigit():
            if len(row) != 10:
                raise DataError(f"{source}:{number + 1}: a token line has {len(row)} columns, CoNLL-U needs 10.")
            words[-1].append(number)
        elif not _NO_WORD.fullmatch(row[0]):
            raise DataError(
                f"{source}:{number + 1}: a line of CoNLL-U cannot start with {quoted(row[0])}. Fix or delete this "
                "line; if the file is plain text, rename it without .conllu."
            )
    return words


def _set_tag(row: list[str], predicted: LabelPrediction, *, entities: bool) -> None:
    if not entities:
        row[3] = escaped(predicted.label)
        return
    others = [entry for entry in row[9].split("|") if entry != "_" and not entry.startswith("NER=")]
    row[9] = "|".join([*others, f"NER={escaped(predicted.label)}"])


def _stdin_lines() -> list[str]:
    try:
        return normalised(sys.stdin.read()).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"stdin: not UTF-8 text ({error.reason}). Convert it first.") from error


def _probability(predicted: LabelPrediction) -> str:
    return "" if predicted.probability is None else f"{predicted.probability:.4f}"


def _shown(text: str) -> str:
    """The lines for a terminal: tabs separate columns, other control characters of the input are escaped."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.split("\n"))


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(_shown(text) if sys.stdout.isatty() else text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: cannot write the file ({error.strerror}).") from error
