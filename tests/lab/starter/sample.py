"""Cut the bundled treebank samples from the full treebanks: fixed, of whole documents where they fit.

python -m tests.lab.starter.sample TREEBANK_FOLDER --sizes 800 500 500 --out trials/starter/treebanks/NAME

Each split's documents are walked in a seeded random order and taken whole while they fit into what is still open; when
none fits any more, the next one is cut. Where that leaves dev with fewer than `--documents`, its sentences are spread
over that many documents, a run of sentences from each, and documents of the treebank's train split are moved to dev if
need be: whole ones, which train then lacks. The test sample is spread over all documents of its split then.
Sentences keep the treebank's order, and their lines are copied to the byte.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

import numpy as np

from trials.datasets.documents import documents_at
from trials.sources.places.corpus_draft import DataDraft

SEED = 0
Document = list[str]  # the sentences of one, as text blocks without the blank line that ends them


def sample_documents(sizes: list[int], wanted: int, rng: np.random.Generator) -> dict[int, int]:
    """How many sentences to take of which document: {document: sentences}, `wanted` in all where there are as many."""
    order = [int(i) for i in rng.permutation(len(sizes))]
    taken: dict[int, int] = {}
    left = wanted
    for document in order:
        if sizes[document] <= left:
            taken[document] = sizes[document]
            left -= sizes[document]
    cut = next((document for document in order if document not in taken), None)
    if left and cut is not None:
        taken[cut] = left
    return taken


def spread_sample(documents: list[Document], wanted: int, rng: np.random.Generator) -> list[str]:
    """A run of sentences of each document from a random place on, of equal length as far as they are long enough."""
    taken, left = dict.fromkeys(range(len(documents)), 0), min(wanted, sum(map(len, documents)))
    while left:
        open_ones = [i for i, n in taken.items() if n < len(documents[i])]
        for i in open_ones[:left]:
            taken[i] += 1
        left -= min(left, len(open_ones))
    starts = {i: int(rng.integers(len(documents[i]) - n + 1)) for i, n in taken.items()}
    return [block for i, document in enumerate(documents) for block in document[starts[i] : starts[i] + taken[i]]]


def read_documents(path: Path) -> list[Document]:
    """The documents of a treebank's file, in its order."""
    lines = [*path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n"), ""]
    ends = [i for i, line in enumerate(lines) if not line.strip()]
    whole = [(start, end) for start, end in zip([-1, *ends], ends, strict=False) if end > start + 1]
    blocks = ["\n".join(lines[start + 1 : end]) for start, end in whole]
    names = documents_at(path, lines, [end for _, end in whole])  # the last line of each
    return [[blocks[i] for i in group] for _, group in groupby(range(len(blocks)), key=names.__getitem__)]


def cut_samples(splits: dict[str, list[Document]], sizes: dict[str, int], least: int) -> dict[str, list[str]]:
    """The sentences of each split's sample; dev's are of `least` documents or more where there are as many."""
    taken = {split: _whole_documents(splits[split], n) for split, n in sizes.items()}
    if len(sample_documents([*map(len, splits["dev"])], sizes["dev"], np.random.default_rng(SEED))) >= least:
        return taken
    rng, moved, left = np.random.default_rng(SEED), set[int](), sum(map(len, splits["train"]))
    for i in map(int, rng.permutation(len(splits["train"]))):
        if len(splits["dev"]) + len(moved) < least and left - len(splits["train"][i]) >= sizes["train"]:
            moved.add(i)
            left -= len(splits["train"][i])
    train = [document for i, document in enumerate(splits["train"]) if i not in moved]
    dev = [*splits["dev"], *(splits["train"][i] for i in sorted(moved))]
    return {
        "train": _whole_documents(train, sizes["train"]),
        "dev": spread_sample(dev, sizes["dev"], rng),
        "test": spread_sample(splits["test"], sizes["test"], rng),
    }


def _whole_documents(documents: list[Document], wanted: int) -> list[str]:
    taken = sample_documents([len(d) for d in documents], wanted, np.random.default_rng(SEED))
    return [block for i, document in enumerate(documents) for block in document[: taken.get(i, 0)]]


def write_samples(source: Path, target: Path, sizes: dict[str, int], least: int) -> dict[str, int]:
    """Write the samples of a treebank's splits into a folder; returns the number of sentences of each."""
    data = DataDraft(folder=str(source)).resolve()
    splits = {split: read_documents(Path(getattr(data, split)[0])) for split in sizes}
    target.mkdir(parents=True, exist_ok=True)
    samples = cut_samples(splits, sizes, least)
    for split, sentences in samples.items():
        text = "".join(block.strip("\n") + "\n\n" for block in sentences)
        (target / f"{split}.conllu").write_text(text, encoding="utf-8")
    return {split: len(sentences) for split, sentences in samples.items()}


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with *train.conllu, *dev.conllu and *test.conllu")
    parser.add_argument("--sizes", type=int, nargs=3, default=[800, 500, 500], metavar=("TRAIN", "DEV", "TEST"))
    parser.add_argument("--documents", type=int, default=40, help="documents that dev holds at least")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    sizes = dict(zip(("train", "dev", "test"), args.sizes, strict=True))
    for split, n in write_samples(args.treebank, args.out, sizes, args.documents).items():
        print(f"{args.out / split}.conllu: {n} sentences")


if __name__ == "__main__":
    main()
