"""Stand-ins for everything that the project's own YAML files name: treebanks, datasets, models and local files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders import write_treebank
from tests.hub_repos import SPLITS, TEXT, card, classes, lists, parquet, sentences
from tests.servers import Files, HubRepo
from tests.trials.conftest import save_tiny_model
from trials.starter import treebank_path

RELEASE = "2.16"
GLUE = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
# Repository, commit, family and the sizes that a plan asks about: its layers and positions.
MODELS: list[tuple[str, str, str, dict[str, int]]] = [
    ("distilbert/distilbert-base-multilingual-cased", "45c032ab32cc946ad88a166f7cb282f58c753c2e", "distilbert",
     {"n_layers": 6}),
    ("distilbert/distilbert-base-uncased", "12040accade4e8a0f71eabdb258fecc2e7e948be", "distilbert", {"n_layers": 6}),
    ("google-bert/bert-base-cased", "cd5ef92a9fb2f889e972770a36d4ed042daf221e", "bert", {"num_hidden_layers": 12}),
    ("google-bert/bert-base-multilingual-cased", "3f076fdb1ab68d5b2880cb87a0886f315b8146f8", "bert",
     {"num_hidden_layers": 12}),
    ("FacebookAI/roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b", "roberta", {"num_hidden_layers": 12}),
]  # fmt: skip


@dataclass
class PinnedRepo(HubRepo):
    """A repository whose commit on `main` is given, as a YAML file pins it.

    Attributes:
        pinned: That commit.
    """

    pinned: str = ""

    def commit(self, branch: str = "main") -> str:
        return self.pinned if branch == "main" else super().commit(branch)


def treebanks(first: int | None = None) -> dict[tuple[str, str], Files]:
    """The bundled samples, or the first sentences of each split, under the names and release of the whole treebanks."""
    whole = {"UD_English-EWT": "en_ewt", "UD_Naija-NSC": "pcm_nsc"}
    return {(name, RELEASE): _treebank(f"{name}-sample", short, first) for name, short in whole.items()}


def _treebank(sample: str, short: str, first: int | None) -> Files:
    files = {"LICENSE.txt": b"CC BY-SA 4.0\n"}
    for split in _SPLITS:
        blocks = (treebank_path(sample) / f"{split}.conllu").read_bytes().split(b"\n\n")
        files[f"{short}-ud-{split}.conllu"] = b"\n\n".join([*blocks[:-1][:first], b""])
    return files


_SPLITS = ("train", "dev", "test")


def hub_repos(folder: Path) -> list[HubRepo]:
    """Datasets and tiny models; the models are built in the folder."""
    glue = PinnedRepo("datasets", "nyu-mll/glue", _glue(), card={"license": "other"}, pinned=GLUE)
    models = [_model(folder, *model) for model in MODELS]
    return [glue, _tagged("eriktks/conll2003", "conll2003"), _tagged("yeshpanovrustem/ner-kazakh", "default"), *models]


def _glue() -> dict[str, bytes]:
    files = {"README.md": card("other", cola=SPLITS, sst2=SPLITS)}
    for config in ("cola", "sst2"):
        for split, labels in (("train", [0, 1] * 600), ("validation", [1, 0] * 5), ("test", [-1] * 3)):
            files[f"{config}/{split}-00000-of-00001.parquet"] = sentences(labels, f"{config} {split}")
    return files


def _tagged(name: str, config: str) -> HubRepo:
    """A program that is never run, and the hub's own conversion of what it would give."""
    features = {"tokens": lists(TEXT), "ner_tags": lists(classes("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))}
    splits = {}
    for split, size in (("train", 12), ("validation", 4), ("test", 4)):
        tokens = [["Ada", "Byron", "in", f"{name} {split} {i}"] for i in range(size)]
        rows: dict[str, Sequence[Any]] = {"tokens": tokens, "ner_tags": [[1, 2, 0, 3]] * size}
        splits[f"{config}/{split}/0000.parquet"] = parquet(rows, features)
    script = {f"{name.rpartition('/')[2]}.py": b"raise SystemExit('never run')"}
    return HubRepo("datasets", name, script, branches={"refs/convert/parquet": splits})


def _model(folder: Path, name: str, commit: str, family: str, sizes: dict[str, int]) -> HubRepo:
    saved = save_tiny_model(family, folder / name, positions=512, **sizes)
    return PinnedRepo("models", name, {path.name: path.read_bytes() for path in saved.iterdir()}, pinned=commit)


def write_local_files(folder: Path) -> None:
    """What the demonstrations and the template name below the folder that a command runs in."""
    write_treebank(folder / "path" / "to" / "your-treebank", train=600)
    write_treebank(folder.parent / "shared" / "data" / "UD_English-EWT", train=600, dev=600)  # of the benchmark
    for split, size in (("train", 1500), ("dev", 20), ("test", 20)):
        _write(folder / "data" / "SST-2" / f"{split}.tsv", [f"{split} text {i}\t{i % 2}" for i in range(size)])
        _write_columns(folder / "data" / "conll2003pp" / f"conllpp_{split}.txt", 1500 if split == "train" else 9)
    for name, size in (("in_domain_train", 200), ("in_domain_dev", 20), ("out_of_domain_dev", 20)):
        rows = [f"source\t{i % 2}\t{'*' if i % 2 else ''}\t{name} {i}" for i in range(size)]
        _write(folder / "data" / "CoLA" / f"{name}.tsv", rows)
    for name, size in (("IOB2_valid", 1500), ("IOB2_test", 8)):
        _write_columns(folder / "data" / "KazNERD" / f"{name}.txt", size, columns=2)


def _write_columns(path: Path, size: int, *, columns: int = 4) -> None:
    middle = " X" * (columns - 2)
    words = (("Ada", "B-PER"), ("Byron", "I-PER"), ("wrote", "O"), (path.stem, "O"))
    _write(path, ["".join(f"{word}{middle} {tag}\n" for word, tag in (*words, (str(i), "O"))) for i in range(size)])


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
