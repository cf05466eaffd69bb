"""Datasets and models of the hub, through its real libraries against a server on loopback.

The libraries read HF_ENDPOINT when they are imported, so the calls are made in a process of their own: one for the
whole module, as its start is most of the time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from tests.examples import each
from tests.hub_repos import SST2, conll, glue, glue_files, model, parquet, sentences
from tests.servers import HubRepo, HubServer
from trials.sources.hub_client import Repo, explain

TOKEN = "hf_averysecrettoken"
CALLS = """
import json, os, sys
from dataclasses import asdict
from trials.errors import PermafrostError
from trials.sources.places.hub_dataset import fetch_dataset
from trials.sources.places.hub_model import fetch_model

for line in sys.stdin:
    name, cache, args, options = json.loads(line)
    os.environ["PERMAFROST_CACHE"] = cache
    told = []
    try:
        found = globals()[name](*args, progress=lambda *step: told.append(step), **options)
        is_model = name == "fetch_model"
        answer = {"found": {"folder": found.folder, "source": found.at.source} if is_model else asdict(found)}
    except PermafrostError as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answer | {"told": told}, default=str), flush=True)
"""
MODEL = {"config.json": b"{}", "model.safetensors": b"w" * 1000, "tokenizer.json": b"{}"}
REPOS = [
    glue(),
    glue("a/gated", gated=True),
    conll(),
    HubRepo("datasets", "a/empty", {"README.md": b"soon"}),
    HubRepo("datasets", "a/broken", {"train.parquet": b"PAR1 no"}),
    HubRepo("datasets", "a/bytes", {"train.parquet": parquet(
        {"x": [b"a"]}, {"x": {"dtype": "binary", "_type": "Value"}})}),
    HubRepo("datasets", "a/rewritten", glue_files() | {"sst2/train-00000-of-00001.parquet": sentences(
        [0, 1, 1, 0, 1], compression="gzip", row_group_size=2)}),
    HubRepo("datasets", "a/partial", {}, branches={"refs/convert/parquet": {"x/partial-train/0000.parquet": b""}}),
    model("a/model", MODEL | {"README.md": b"", "pytorch_model.bin": b"p", "onnx/model.onnx": b"o"}),
    model("a/pickle", {"config.json": b"{}", "pytorch_model.bin": b"p", "vocab.txt": b"a"}),
    model("a/sharded", {"config.json": b"{}", "model-00001-of-00002.safetensors": b"1", "vocab.txt": b"a",
                        "model-00002-of-00002.safetensors": b"2", "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}).encode()}),
    model("a/flax", {"config.json": b"{}", "flax_model.msgpack": b"f"}),
    model("a/gguf", {"x.gguf": b"g"}),
    model("a/gated", MODEL, gated=True),
]  # fmt: skip


@dataclass
class Hub:
    """A process that fetches datasets and models, and the server that it asks."""

    process: subprocess.Popen[str]
    server: HubServer
    cache: Path
    stderr: Path

    def call(self, name: str, *args: Any, **options: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.server.asked()
        print(json.dumps([name, str(self.cache), args, options]), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert TOKEN not in str(answer)
        return answer

    def dataset(
        self, repo: str = SST2, config: str | None = "sst2", revision: str | None = "main", *, offline: bool = False
    ) -> dict[str, Any]:
        found: dict[str, Any] = self.call("fetch_dataset", repo, config, revision, offline=offline)["found"]
        return found

    def no_dataset(
        self, repo: str = SST2, config: str | None = None, revision: str = "main", *, offline: bool = False
    ) -> str:
        answer = self.call("fetch_dataset", repo, config, revision, offline=offline)
        assert answer["error"] == "DataError"
        return str(answer["message"])

    def model(self, repo: str, revision: str = "main", *, allow_pickle: bool = False, offline: bool = False) -> Path:
        answer = self.call("fetch_model", repo, revision, allow_pickle=allow_pickle, offline=offline)
        return Path(answer["found"]["folder"])

    def no_model(self, repo: str, revision: str = "main", *, allow_pickle: bool = False, offline: bool = False) -> str:
        answer = self.call("fetch_model", repo, revision, allow_pickle=allow_pickle, offline=offline)
        assert answer["error"] == "ModelError"
        return str(answer["message"])


def start(folder: Path, endpoint: str) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    env |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "HF_TOKEN": TOKEN, "NO_PROXY": "*"}
    env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with (folder / "stderr").open("a") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", CALLS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=env,
            cwd=Path(__file__).parents[3],
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    with HubServer(*REPOS) as server, start(folder, server.url) as process:
        server.moved["glue"] = SST2
        yield Hub(process, server, folder, folder / "stderr")
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def hub(running: Hub, tmp_path: Path) -> Iterator[Hub]:
    """With an empty cache of ours; the libraries' own is shared by the module."""
    running.cache = tmp_path
    yield running
    running.server.status = running.server.accepts = None


def commit(repo: str, branch: str = "main", kind: str = "datasets") -> str:
    return next(one for one in REPOS if (one.kind, one.name) == (kind, repo)).commit(branch)


def rows(found: dict[str, Any], split: str = "train") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(found["folder"]) / f"{split}.jsonl").read_text().splitlines()]


# --- Datasets


def test_a_dataset_comes_as_json_lines_with_the_names_of_its_classes_but_for_a_split_of_hidden_labels(hub: Hub) -> None:
    found = hub.dataset()
    folder = Path(found["folder"])
    assert (folder / "validation.jsonl").read_text(encoding="utf-8") == (
        '{"idx":0,"label":"positive","sentence":"no 0 café"}\n{"idx":1,"label":"negative","sentence":"no 1 café"}\n'
    )
    assert folder == hub.cache / "hub/datasets/nyu-mll--glue/sst2" / commit(SST2)
    assert found["source"] == f"hub:nyu-mll/glue/sst2@{commit(SST2)}"
    assert (found["name"], found["kind"], found["licence"]) == ("nyu-mll/glue/sst2", "hub", "mit")
    assert (found["files"], found["hidden"]) == (["train.jsonl", "validation.jsonl"], ["test"])
    left = {".lock", "manifest.json", "train.jsonl", "validation.jsonl"}
    assert {path.name for path in folder.iterdir()} == left


def test_the_same_rows_in_another_file_are_the_same_bytes(hub: Hub) -> None:
    first, second = hub.dataset(), hub.dataset("a/rewritten")
    assert first["source"] != second["source"]
    assert digests(first) == digests(second)


def digests(found: dict[str, Any]) -> list[str]:
    return [hashlib.sha256((Path(found["folder"]) / file).read_bytes()).hexdigest() for file in found["files"]]


@pytest.mark.parametrize("revision", ["main", commit(SST2)])
def test_what_is_here_is_not_asked_for_and_a_branch_only_looked_up(hub: Hub, revision: str) -> None:
    first = hub.dataset(revision=revision)
    assert len(hub.server.asked()) > 0
    assert hub.dataset(revision=revision) == first
    looked_up = ["/api/datasets/nyu-mll/glue/revision/main"] if revision == "main" else []
    assert [request.path for request in hub.server.asked()] == looked_up
    assert hub.dataset(revision=revision, offline=True) == first
    assert hub.server.asked() == []


def test_offline_and_absent_is_told_without_asking(hub: Hub) -> None:
    hub.dataset()
    assert hub.no_dataset(SST2, "cola", offline=True) == (
        "dataset nyu-mll/glue (cola, main) is not on this machine and --offline forbids the download; "
        "run `permafrost data fetch hub:nyu-mll/glue/cola@main` first."
    )
    assert hub.server.asked() == []


def test_rows_that_changed_in_the_cache_or_were_not_finished_are_made_again(hub: Hub) -> None:
    found = hub.dataset(revision=commit(SST2))
    path = Path(found["folder"]) / "train.jsonl"
    before = path.read_text()
    path.write_text(before.replace("positive", "negative", 1))
    path.with_name("validation.jsonl").touch()
    assert f"is damaged on this machine ({path} has" in hub.no_dataset(SST2, "sst2", commit(SST2), offline=True)
    assert (hub.dataset(revision=commit(SST2)), path.read_text()) == (found, before)
    path.with_name("manifest.json").unlink()
    assert "not on this machine" in hub.no_dataset(SST2, "sst2", commit(SST2), offline=True)
    assert (hub.dataset(revision=commit(SST2)), path.read_text()) == (found, before)


def test_a_branch_of_converted_files_is_read_by_configuration(hub: Hub) -> None:
    found = hub.dataset("eriktks/conll2003", "conll2003", "refs/convert/parquet")
    assert found["files"] == ["train.jsonl", "test.jsonl"]
    assert rows(found)[0] == {"tokens": ["Ada", "Byron", "wrote"], "ner_tags": ["B-PER", "I-PER", "O"]}
    assert len(rows(found)) == 2
    assert hub.dataset("eriktks/conll2003", "conll2003", "refs/convert/parquet", offline=True) == found


# --- Datasets refused


CONLL, CONVERTED = "eriktks/conll2003", "refs/convert/parquet"
SEVERAL = "has several configurations; name one of"
GATED = "is gated: accept its terms on its page, URL/datasets/a/gated, and log in (`hf auth login`, or set HF_TOKEN)."


@each(
    "repo, config, revision, message",
    [
        (SST2, None, "main", f"dataset {SST2} {SEVERAL} cola, sst2, as {SST2}/"),
        (SST2, "sst", "main", f"dataset {SST2}: configuration: unknown 'sst', did you mean 'sst2'? Known: cola, sst2."),
        (CONLL, None, CONVERTED, f"dataset {CONLL} {SEVERAL} conll2003, small, as {CONLL}/"),
        (CONLL, "sst", CONVERTED, f"dataset {CONLL}: configuration: unknown 'sst'. Known: conll2003, small."),
        (
            CONLL,
            None,
            "main",
            f"dataset {CONLL} at 'main' is a program (conll2003.py), which `datasets` no longer runs.",
        ),
        ("a/gated", "sst2", "main", f"dataset a/gated {GATED}"),
        ("nyu-mll/glu", None, "main", "dataset nyu-mll/glu is not at URL, or is private."),
        ("imdb/plain", None, "main", "dataset imdb/plain is not at URL, or is private."),  # as it was given
        (SST2, None, "v9", f"dataset {SST2} has no revision 'v9'. Its branches and tags"),
        ("a/empty", None, "main", "dataset a/empty cannot be read: "),
        ("a/broken", None, "main", "dataset a/broken cannot be read: "),
        ("a/bytes", None, "main", "dataset a/bytes, split train: column 'x' holds Value('binary'); only text, numbers"),
        ("a/partial", "x", CONVERTED, "dataset a/partial: the hub converted only a part of 'x'. Use another source."),
    ],
)
def test_a_dataset_that_cannot_be_had_is_told(
    hub: Hub, repo: str, config: str | None, revision: str, message: str
) -> None:
    told = hub.no_dataset(repo, config, revision)
    assert told.startswith(message.replace("URL", hub.server.url))
    assert "\n" not in told


@each(
    "status, words",
    [(429, "too many requests to "), (403, "refuses access (HTTP 403)"), (500, "answered HTTP 500. Try again later")],
)
def test_a_refusal_of_the_server_is_told(hub: Hub, status: int, words: str) -> None:
    hub.server.status = status
    assert words in hub.no_dataset()


def test_a_token_that_is_not_accepted_is_told_and_not_shown(hub: Hub) -> None:
    hub.server.accepts = "hf_another"
    message = hub.no_dataset()
    assert "does not accept the token of this machine (HTTP 401)" in message
    assert hub.server.asked()[0].headers["authorization"] == f"Bearer {TOKEN}"  # it is sent, but stands in no message


@each(
    "repo, config, message",
    [
        *(
            (repo, None, f"{repo!r} is not a name on the hub, which is OWNER/NAME, e.g. nyu-mll/glue.")
            for repo in ("a/b/c", "../glue", "", "a b/c", "/etc")
        ),
        *((SST2, config, f"{config!r} is not the name of a configuration.") for config in ("", "../x")),
    ],
)
def test_what_cannot_be_a_name_is_refused_without_asking(hub: Hub, repo: str, config: str | None, message: str) -> None:
    assert hub.no_dataset(repo, config).endswith(message)
    assert hub.server.asked() == []


@pytest.mark.parametrize(("name", "config"), [("glue/sst2", None), (SST2, "sst2")])
def test_a_datasets_older_name_and_no_revision_are_its_newest_commit_also_offline(
    hub: Hub, name: str, config: str | None
) -> None:
    found = hub.dataset(name, config, None)
    assert found["source"] == f"hub:nyu-mll/glue/sst2@{commit(SST2)}"
    hub.server.asked()
    assert hub.dataset(name, config, None, offline=True) == found
    assert hub.server.asked() == []


# --- Models


def test_a_model_comes_with_configuration_weights_and_tokenizer_alone(hub: Hub) -> None:
    folder = hub.model("a/model")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == MODEL
    assert folder.name == commit("a/model", kind="models")


def test_weights_in_several_files_come_with_their_index_and_only_whole_are_used_offline(hub: Hub) -> None:
    folder = hub.model("a/sharded")
    assert len(list(folder.glob("model-*.safetensors"))) == 2
    assert hub.model("a/sharded", offline=True) == folder
    shard = folder / "model-00002-of-00002.safetensors"
    kept = shard.readlink()
    shard.unlink()
    assert "is not on this machine" in hub.no_model("a/sharded", offline=True)
    shard.symlink_to(kept)


def test_progress_of_a_model_tells_the_bytes_of_its_weights(hub: Hub) -> None:
    hub.server.repos["models", "a/fresh"] = model("a/fresh", MODEL)
    told = hub.call("fetch_model", "a/fresh", "main", allow_pickle=False, offline=False)["told"]
    assert told[-1] == ["a/fresh", len(MODEL["model.safetensors"]), len(MODEL["model.safetensors"])]
    assert [step[1] for step in told] == sorted(step[1] for step in told)


# --- Models refused


def test_a_pickle_comes_only_where_it_is_allowed_and_only_then_is_used_offline(hub: Hub) -> None:
    message = hub.no_model("a/pickle")
    assert "only as a pickle (pytorch_model.bin), and reading a pickle can run code" in message
    assert "say `allow_pickle: true` in a sweep file; else name a revision with model.safetensors" in message
    assert not any("pytorch_model.bin" in request.path for request in hub.server.asked())
    folder = hub.model("a/pickle", allow_pickle=True)
    assert (folder / "pytorch_model.bin").read_bytes() == b"p"
    assert hub.model("a/pickle", allow_pickle=True, offline=True) == folder
    assert "can run code" in hub.no_model("a/pickle", offline=True)


@each(
    "repo, revision, words",
    [
        ("a/gated", "main", "model a/gated is gated: accept its terms on its page, "),
        ("a/none", "main", "model a/none is not at "),
        ("a/model", "v9", "model a/model has no revision 'v9'."),
        ("a/flax", "main", "model a/flax at 'main' has no model.safetensors. Choose a model or a revision that"),
        ("a/gguf", "main", "model a/gguf has no config.json; it is not a model that transformers reads."),
        ("a b", "main", "'a b' is not a name on the hub, which is OWNER/NAME, e.g. FacebookAI/roberta-base."),
        ("a/model", "", "model a/model: the revision is empty."),
    ],
)
def test_a_model_that_cannot_be_had_is_told(hub: Hub, repo: str, revision: str, words: str) -> None:
    assert hub.no_model(repo, revision).startswith(words)


# --- Without a hub


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OfflineModeIsEnabled(), "is not on this machine, and HF_HUB_OFFLINE forbids the download."),
        (
            OSError(errno.ENOSPC, "No space left on device", "/hf"),
            "/hf: No space left on device. Fix this, or set HF_HOME",
        ),
        (FileNotFoundError("no hf_averysecrettoken\nhere"), "cannot be read: no *** here. Use another revision"),
    ],
)
def test_what_the_libraries_raise_is_told_in_our_words(error: Exception, words: str) -> None:
    assert words in explain(error, Repo("datasets", SST2, "main"))


def test_without_a_connection_it_is_told_and_what_is_here_is_found(hub: Hub) -> None:
    dataset, folder = hub.dataset(revision=commit(SST2)), hub.model("a/model")
    with HubServer() as gone:
        pass
    with start(hub.stderr.parent, gone.url) as process:
        cut_off = Hub(process, hub.server, hub.cache, hub.stderr)
        for message in (cut_off.no_dataset(), cut_off.no_model("a/none")):
            assert f"cannot reach {gone.url} (" in message
            assert "or work with what is on this machine (--offline). Nor is it a file or folder here." in message
        assert cut_off.dataset(revision=commit(SST2)) == dataset
        assert cut_off.model("a/model", offline=True) == folder
        assert process.stdin is not None
        process.stdin.close()
    assert hub.server.asked() == []


def test_the_libraries_say_nothing_of_their_own(hub: Hub) -> None:
    hub.dataset()
    assert hub.stderr.read_text() == ""
