"""Small repositories for `tests.servers.HubServer`, made as the hub's own are: parquet, a card, weights."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import constants

from tests.servers import Files, HubRepo, HubServer

TEXT = {"dtype": "string", "_type": "Value"}
NUMBER = {"dtype": "int32", "_type": "Value"}

SST2 = "nyu-mll/glue"
SPLITS = ("train", "validation", "test")


def card(licence: str, **configs: Sequence[str]) -> bytes:
    """A card that states the files of each configuration's splits."""
    stated = [
        {"config_name": name, "data_files": [{"split": split, "path": f"{name}/{split}-*"} for split in splits]}
        for name, splits in configs.items()
    ]
    return f"---\n{yaml.safe_dump({'license': licence, 'configs': stated})}---\n# About\n".encode()


def classes(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}


def lists(feature: Mapping[str, Any]) -> dict[str, Any]:
    return {"feature": feature, "_type": "List"}


def parquet(columns: Mapping[str, Sequence[Any]], features: Mapping[str, Any], **options: Any) -> bytes:
    """A parquet file that states its features as `datasets` does; options are of pyarrow's writer."""
    table = pa.table({name: list(values) for name, values in columns.items()})
    stated = json.dumps({"info": {"features": features}})
    content = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"huggingface": stated}), content, **options)
    return content.getvalue()


def sentences(labels: Sequence[int], start: str = "no", **options: Any) -> bytes:
    """As GLUE's files: a sentence, its class, its number."""
    columns: dict[str, Sequence[Any]] = {
        "sentence": [f"{start} {i} café" for i in range(len(labels))],
        "label": labels,
        "idx": list(range(len(labels))),
    }
    return parquet(columns, {"sentence": TEXT, "label": classes("negative", "positive"), "idx": NUMBER}, **options)


def glue_files() -> dict[str, bytes]:
    return {
        "README.md": card("mit", sst2=SPLITS, cola=("train",)),
        "sst2/train-00000-of-00001.parquet": sentences([0, 1, 1, 0, 1]),
        "sst2/validation-00000-of-00001.parquet": sentences([1, 0]),
        "sst2/test-00000-of-00001.parquet": sentences([-1, -1, -1]),
        "cola/train-00000-of-00001.parquet": sentences([1]),
    }


def glue(name: str = SST2, *, gated: bool = False) -> HubRepo:
    """Two configurations; the test split's labels are hidden."""
    return HubRepo("datasets", name, glue_files(), card={"license": "mit"}, gated=gated)


def conll(name: str = "eriktks/conll2003") -> HubRepo:
    """A program, and on the hub's branch of converted files its two configurations."""
    names = ("O", "B-PER", "I-PER")
    columns: dict[str, Sequence[Any]] = {"tokens": [["Ada", "Byron", "wrote"], ["yes"]], "ner_tags": [[1, 2, 0], [0]]}
    tagged = parquet(columns, {"tokens": lists(TEXT), "ner_tags": lists(classes(*names))})
    configs = {
        f"{config}/{split}/0000.parquet": tagged for config in ("conll2003", "small") for split in ("train", "test")
    }
    script = {f"{name.rpartition('/')[2]}.py": b"raise SystemExit('never run')", "README.md": b"# About\n"}
    return HubRepo("datasets", name, script, branches={"refs/convert/parquet": configs})


def model(name: str, files: Files, *, gated: bool = False) -> HubRepo:
    return HubRepo("models", name, files, gated=gated)


def point_at(server: HubServer, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the hub's library, in this process, ask a server and keep its cache in a folder, as its variables do."""
    for name, value in {
        "ENDPOINT": server.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(folder / "hf"),
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", server.url)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PERMAFROST_CACHE", str(folder / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


def cached_snapshot(name: str, commit: str, files: Files, *, branch: str | None = None) -> Path:
    """A model in the hub's cache as another program leaves it: a snapshot, and the branch that it was fetched by."""
    repository = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file, content in files.items():
        (snapshot / file).write_bytes(content)
    if branch is not None:
        (repository / "refs").mkdir()
        (repository / "refs" / branch).write_text(commit)
    return snapshot
