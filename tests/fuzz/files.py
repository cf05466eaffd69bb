"""Broken input files by number: a real file of each kind after some accidents, read as a command would read it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.model_card import base_licence
from orchestrator.rerun import find_trial
from orchestrator.status import status
from orchestrator.store import open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.sweep import expand, load_sweep
from orchestrator.yaml_file import Document
from tests.builders import make_spec, write_sweep
from tests.fuzz.judging import Verdict, contents, judged
from tests.fuzz.mutations import mutated, mutated_json, mutated_parquet
from tests.orchestrator.store.rows import epoch, prediction, tag, trial
from tests.small_sweeps import write_bank, write_entities, write_reviews
from trials.draft import Lookup
from trials.sources.cache import complete, finish
from trials.sources.draft import DataDraft
from trials.spec import Columns, TrialSpec

LIMIT_S = 5.0
Mutate = Callable[[random.Random, bytes], bytes]
TEXTS, SENTENCES = Columns(text="text", label="label"), Columns(tokens="tokens", tags="tags")


class Kind(NamedTuple):
    """A kind of input file.

    Attributes:
        path: Where the whole one is.
        read: What reads it, or the folder it is in.
        mutate: What happens to it.
    """

    path: Path
    read: Callable[[], object]
    mutate: Mutate = mutated


class BrokenFile(NamedTuple):
    """A file of a kind after some accidents."""

    kind: str
    content: bytes


class Files:
    """Whole files of every kind in a folder, each of which is broken, read and mended in turn.

    Attributes:
        kinds: By name.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.kinds = {**_corpora(folder), **_store(folder / "store"), **_others(folder)}
        self._whole = {name: kind.path.read_bytes() for name, kind in self.kinds.items()}

    def make(self, number: int) -> BrokenFile:
        """The broken file of this number, always the same; kinds come in turn."""
        rng = random.Random(f"file {self.seed} {number}")
        name = list(self.kinds)[number % len(self.kinds)]
        return BrokenFile(name, self.kinds[name].mutate(rng, self._whole[name]))

    def try_out(self, broken: BrokenFile) -> Verdict:
        """Read it, judge what comes of it, and see that nothing beside it changed."""
        kind = self.kinds[broken.kind]
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


# --- A store


def _store(folder: Path) -> dict[str, Kind]:
    """Its files; whichever is broken, all of the store is read."""
    specs = [make_spec(seed=seed) for seed in range(3)]
    ids = [spec.trial_id for spec in specs]
    store = open_store(folder, must_exist=False)
    store.append("epochs", [epoch(i, step=step) for i in ids for step in (1, 2)])
    store.append("tags", [tag(i, name=name) for i in ids for name in ("NOUN", "VERB")])
    store.append("predictions", [prediction(i, sentence=n) for i in ids for n in range(3)])
    store.append("trials", [_trial_row(spec) for spec in specs])
    plan = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    store.add_plan(SweepPlan("tiny", 1.0, "tiny.yaml", plan))
    kinds = {"store.json": Kind(folder / "store.json", lambda: _read_store(folder, ids[0]), mutated_json)}
    for table in ("epochs", "trials", "tags", "predictions"):
        (part,) = (folder / table).iterdir()  # without the digest in its name, by which it would be refused unread
        part = part.rename(part.with_name("part-00000000000000000001-0123abcd.parquet"))
        kinds[f"{table} part"] = Kind(part, lambda: _read_store(folder, ids[0]), mutated_parquet)
    (plan_file,) = (folder / "sweeps" / "tiny").iterdir()
    plan_file = plan_file.rename(plan_file.with_name("plan-00000000000000000001-0123abcd.json"))
    return kinds | {"plan": Kind(plan_file, lambda: _read_store(folder, ids[0]), mutated_json)}


def _trial_row(spec: TrialSpec) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "best_score": 0.5,
        "test_score": 0.4,
        "train_s": 2.0,
        "total_params": 1000,
        "trainable_params": 250,
    }
    return trial(spec.trial_id, task="pos", corpus="tiny", device="cpu", **figures, spec=spec.model_dump_json())


def _read_store(folder: Path, trial_id: str) -> None:
    """Everything that is read of a store, and the commands that show it."""
    store = open_store(folder)
    for table in (store.trials(), store.epochs(), store.tags(), store.predictions(trial_id)):
        table.validate(full=True)
        table.to_pylist()
    store.completed_ids(), store.attempts(), store.sweeps()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status(str(folder), debug=True)
        status(str(folder), as_json=True, debug=True)
        status(str(folder), each_trial=True, debug=True)
    find_trial(store, trial_id)


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
    published.write_bytes((Path(__file__).parents[2] / "configs/published/emekaeze_pos.yaml").read_bytes())
    (cached / "train.jsonl").write_text("{}\n")
    finish(cached, name="a/b", kind="hub", source="hub:a/b@0", licence=None, files=["train.jsonl"])
    manifest = Kind(cached / "manifest.json", lambda: _stays_inside(cached), mutated_json)
    return {
        "sweep.yaml": Kind(sweep, lambda: expand(*load_sweep(sweep, []), Lookup(offline=True))),
        "README.md": Kind(card, lambda: base_licence(card.parent)),
        "published.yaml": Kind(published, lambda: Document.read(published)),
        "manifest.json": manifest,
    }


def _stays_inside(folder: Path) -> None:
    found = complete(folder)
    for path in (path for paths in found.splits.values() for path in paths) if found else ():
        assert path.resolve().parent == folder.resolve(), f"{path} is outside {folder}"
