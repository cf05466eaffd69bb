"""Cut the bundled treebank samples from the full treebanks: fixed, of whole documents where they fit.

python -m trials.starter_tools.sample TREEBANK_FOLDER --sizes 800 500 500 --out trials/starter/treebanks/NAME

Each split's documents are walked in a seeded random order and taken whole while they fit into what is still open; when
none fits any more, the next one is cut. Sentences keep the treebank's order, and their lines are copied to the byte.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

import numpy as np

from trials.sources.corpus_draft import DataDraft

SEED = 0


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


def read_documents(path: Path) -> list[list[str]]:
    """The sentences of each document, as text blocks without the blank line that ends them."""
    blocks = [block for block in path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n\n") if block.strip()]
    starts = [any(line.startswith("# newdoc") for line in block.split("\n")) for block in blocks]
    number = np.cumsum(starts) if any(starts) else None
    keys = [str(number[i]) if number is not None else _document_of(block) for i, block in enumerate(blocks)]
    return [[blocks[i] for i in group] for _, group in groupby(range(len(blocks)), key=keys.__getitem__)]


def _document_of(block: str) -> str:
    """Treebanks without `# newdoc` count their sentences after two underscores: `ABJ_GWA_02__17`."""
    name = next((line for line in block.split("\n") if line.startswith("# sent_id")), "")
    return name.rpartition("__")[0]


def write_sample(source: Path, target: Path, wanted: int) -> int:
    """Write one split's sample; returns the number of its sentences."""
    documents = read_documents(source)
    taken = sample_documents([len(d) for d in documents], wanted, np.random.default_rng(SEED))
    sentences = [block for i, document in enumerate(documents) for block in document[: taken.get(i, 0)]]
    target.write_text("".join(block.strip("\n") + "\n\n" for block in sentences), encoding="utf-8")
    return len(sentences)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with *train.conllu, *dev.conllu and *test.conllu")
    parser.add_argument("--sizes", type=int, nargs=3, default=[800, 500, 500], metavar=("TRAIN", "DEV", "TEST"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    data = DataDraft(folder=str(args.treebank)).resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    for split, wanted in zip(("train", "dev", "test"), args.sizes, strict=True):
        n = write_sample(Path(getattr(data, split)[0]), args.out / f"{split}.conllu", wanted)
        print(f"{args.out / split}.conllu: {n} sentences")


if __name__ == "__main__":
    main()
