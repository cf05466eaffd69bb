"""Broken input files by number: a real file of each kind after some accidents, read as a command would read it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.api.licences import base_licence
from orchestrator.config.yaml_document import Document
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.builders import write_sweep
from tests.lab.fuzz.judging import Verdict, contents, judged
from tests.lab.fuzz.kind import Kind
from tests.lab.fuzz.mutations import mutated, mutated_json, mutated_parquet
from tests.lab.fuzz.store_files import store_kinds
from tests.small_sweeps import write_bank, write_entities, write_reviews
from trials.draft import Lookup
from trials.settings import Columns
from trials.sources.cache import read_manifest, write_manifest
from trials.sources.places.corpus_draft import DataDraft

LIMIT_S = 5.0
TEXTS, SENTENCES = Columns(text="text", label="label"), Columns(tokens="tokens", tags="tags")


class BrokenFile(NamedTuple):
    """A file of a kind after some accidents."""

    kind: str
    content: bytes | None


class Files:
    """Whole files of every kind in a folder, each of which is broken, read and mended in turn.

    Attributes:
        kinds: By name.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.kinds = {**_corpora(folder), **store_kinds(folder / "store"), **_others(folder)}
        self._whole = {name: kind.path.read_bytes() for name, kind in self.kinds.items()}

    def make(self, number: int) -> BrokenFile:
        """The broken file of this number, always the same; kinds come in turn."""
        rng = random.Random(f"file {self.seed} {number}")
        name = list(self.kinds)[number % len(self.kinds)]
        return BrokenFile(name, self.kinds[name].mutate(rng, self._whole[name]))

    def try_out(self, broken: BrokenFile) -> Verdict:
        """Read it, judge what comes of it, and see that nothing beside it changed."""
        kind = self.kinds[broken.kind]
        if broken.content is None:
            kind.path.unlink()
        else:
            kind.path.write_bytes(broken.content)
        before = contents(kind.path.parent)
        try:
            verdict = judged(kind.read, limit_s=LIMIT_S)
            changed = contents(kind.path.parent) != before
        finally:
            kind.path.write_bytes(self._whole[broken.kind])
        return Verdict("finding", "reading it changed the folder") if changed else verdict


# --- Corpora


def _corpora(folder: Path) -> dict[str, Kind]:
    bank, entities, reviews = (
        write_bank(folder / "bank", train=12, dev=3, test=3), write_entities(folder / "entities"),
        write_reviews(folder / "reviews"),
    )  # fmt: skip
    tables = _tables(folder / "tables")
    packed = folder / "packed" / "train.conllu.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((bank / "train.conllu").read_bytes()))
    gz = Kind(packed, _reads(packed, bank / "dev.conllu", "pos"), _packed)
    kinds = {
        "conllu": Kind(bank / "train.conllu", _reads(bank / "train.conllu", bank / "dev.conllu", "pos")),
        "columns": Kind(entities / "train.bio", _reads(entities / "train.bio", entities / "dev.bio", "ner")),
        "tsv": Kind(reviews / "train.tsv", _reads(reviews / "train.tsv", reviews / "dev.tsv", "classification", TEXTS)),
        "stsb.tsv": Kind(tables / "s.tsv", _reads(tables / "s.tsv", tables / "dev.jsonl", "stsb", TEXTS, mixed=True)),
        "conllu.gz": gz,
    }
    for name in ("texts.csv", "texts.jsonl", "texts.parquet"):
        path, mutate = tables / name, mutated_parquet if name.endswith("parquet") else mutated
        kinds[name] = Kind(
            path, _reads(path, tables / f"dev.{name.rpartition('.')[2]}", "classification", TEXTS), mutate
        )
    for name in ("sentences.jsonl", "sentences.parquet"):
        path, mutate = tables / name, mutated_parquet if name.endswith("parquet") else mutated
        kinds[name] = Kind(path, _reads(path, tables / f"devs.{name.rpartition('.')[2]}", "ner", SENTENCES), mutate)
    return kinds


def _reads(
    train: Path, dev: Path, task: str, columns: Columns | None = None, *, mixed: bool = False
) -> Callable[[], Any]:
    """What a plan does to read a corpus."""
    dev = train.with_name("s-dev.tsv") if mixed else dev
    draft = DataDraft(train=(str(train),), dev=(str(dev),), columns=columns)
    return lambda: Lookup(offline=True).data(draft, task)


def _packed(rng: random.Random, content: bytes) -> bytes:
    """Broken outside, or inside."""
    if rng.random() < 0.5:
        return mutated(rng, content)
    inside = mutated(rng, gzip.decompress(content))
    return gzip.compress(inside, 1) + rng.choice((b"", b"", b"\0", content, gzip.compress(b"")))


def _tables(folder: Path) -> Path:
    folder.mkdir()
    words = ("good", "bad", "fine", "poor")
    texts: list[dict[str, Any]] = [
        {"text": f"A {words[n % 4]} film, no. {n}.", "label": n % 2, "score": n / 2} for n in range(24)
    ]
    sentences: list[dict[str, Any]] = [
        {"tokens": ["Mr", f"N{n}", "left"], "tags": ["O", "B-PER", "O"]} for n in range(20)
    ]
    for name, rows in (("texts", texts[:16]), ("dev", texts[16:])):
        _write_jsonl(folder / f"{name}.jsonl", rows)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
        lines = [f'"{row["text"]}",{row["label"]},{row["score"]}' for row in rows]
        (folder / f"{name}.csv").write_text("\n".join(["text,label,score", *lines]) + "\n")
        tsv = [f"{row['text']}\t{row['score']}" for row in rows]
        (folder / f"{'s' if name == 'texts' else 's-dev'}.tsv").write_text("\n".join(["text\tlabel", *tsv]) + "\n")
    for name, rows in (("sentences", sentences[:16]), ("devs", sentences[16:])):
        _write_jsonl(folder / f"{name}.jsonl", rows)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def _write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- Other files


def _others(folder: Path) -> dict[str, Kind]:
    for name in ("yaml", "published", "cached", "model"):
        (folder / name).mkdir()
    card = folder / "model" / "README.md"
    card.write_text("---\nlicense: apache-2.0\ntags: [a, b]\nmodel-index:\n  - name: x\n---\n# A model\n")
    sweep = write_sweep(
        folder / "yaml" / "sweep.yaml",
        f"# A sweep\nname: tiny\ntrial:\n  data:\n    folder: {folder}/bank\n  optim: {{lr: 1e-3, epochs: 2}}\nspace:\n"
        "  freeze:\n    - none\n    - {strategy: first_k, depth: 2}\n  train_size: [4, 8]\nseeds: [0, 1]\n",
    )  # fmt: skip
    published, cached = folder / "published" / "study.yaml", folder / "cached"
    published.write_bytes((Path(__file__).parents[3] / "configs/published/emekaeze_pos.yaml").read_bytes())
    (cached / "train.jsonl").write_text("{}\n")
    write_manifest(cached, name="a/b", kind="hub", source="hub:a/b@0", licence=None, files=["train.jsonl"])
    cluster = folder / "yaml" / "cluster.yaml"
    cluster.write_bytes((Path(__file__).parents[3] / "configs/clusters/gpus.yaml").read_bytes())
    manifest = Kind(cached / "manifest.json", lambda: _stays_inside(cached), mutated_json)
    return {
        "sweep.yaml": Kind(sweep, lambda: expand(*load_sweep(sweep, []), Lookup(offline=True))),
        "cluster.yaml": Kind(cluster, lambda: find_cluster(str(cluster))),
        "README.md": Kind(card, lambda: base_licence(card.parent)),
        "published.yaml": Kind(published, lambda: Document.read(published)),
        "manifest.json": manifest,
    }


def _stays_inside(folder: Path) -> None:
    found = read_manifest(folder)
    for path in (path for paths in found.splits.values() for path in paths) if found else ():
        assert path.resolve().parent == folder.resolve(), f"{path} is outside {folder}"
