"""Datasets and models of the hub, through its real libraries against a server on loopback."""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import OfflineModeIsEnabled

from tests.examples import each, refusal_of
from tests.hub_repos import SST2, cached_snapshot, conll, glue, glue_files, model, parquet, point_at, sentences
from tests.servers import Files, HubRepo, HubServer
from trials.errors import DataError, ModelError
from trials.outside.plain_files import progress
from trials.sources.cache import FetchedCorpus, download_ban
from trials.sources.hub_client import Repo, explain
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.hub_dataset import converter, fetch_dataset, write_rows
from trials.sources.places.hub_model import fetch_model
from trials.sources.places.model_draft import LocatedModel, ModelDraft, find_model, named_model

datasets: Any = pytest.importorskip("datasets")  # it has no types
ClassLabel, Features, Value = datasets.ClassLabel, datasets.Features, datasets.Value
LargeList, List, Sequence = datasets.LargeList, datasets.List, datasets.Sequence

TOKEN = "hf_averysecrettoken"
CONFIG = json.dumps({"model_type": "bert", "num_hidden_layers": 2, "max_position_embeddings": 16}).encode()
FILES = {"config.json": CONFIG, "model.safetensors": b"w" * 1000, "tokenizer.json": b"{}"}
BERT = "google-bert/bert-base-cased"
OLD, NEW = "a" * 40, "b" * 40
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
    model("a/model", FILES | {"README.md": b"", "pytorch_model.bin": b"p", "onnx/model.onnx": b"o"}),
    model("a/sharded", {"config.json": CONFIG, "model-00001-of-00002.safetensors": b"1", "vocab.txt": b"a",
                        "model-00002-of-00002.safetensors": b"2", "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}).encode()}),
    model("a/flax", {"config.json": CONFIG, "flax_model.msgpack": b"f"}),
    model("a/gguf", {"x.gguf": b"g"}),
    model("a/gated", FILES, gated=True),
    model(BERT, FILES),
]  # fmt: skip


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with HubServer(*REPOS) as server:
        server.moved |= {"glue": SST2, "bert-base-cased": BERT}
        point_at(server, monkeypatch, tmp_path)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def commit(repo: str, branch: str = "main", kind: str = "datasets") -> str:
    return next(one for one in REPOS if (one.kind, one.name) == (kind, repo)).commit(branch)


def dataset(
    repo: str = SST2, config: str | None = "sst2", revision: str | None = "main", *, offline: bool = False
) -> FetchedCorpus:
    return fetch_dataset(repo, config, revision, offline=offline)


def fetched(
    repo: str, revision: str | None = None, *, allow_pickle: bool = False, offline: bool = False
) -> LocatedModel:
    return fetch_model(repo, revision, allow_pickle=allow_pickle, offline=offline)


no_dataset = refusal_of(dataset, DataError)
no_model = refusal_of(fetched, ModelError)


# --- Datasets


def test_a_dataset_comes_as_json_lines_with_the_names_of_its_classes_but_for_a_split_of_hidden_labels(
    hub: HubServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = dataset()
    assert (found.folder / "validation.jsonl").read_text(encoding="utf-8") == (
        '{"idx":0,"label":"positive","sentence":"no 0 café"}\n{"idx":1,"label":"negative","sentence":"no 1 café"}\n'
    )
    assert found.folder == tmp_path / "cache/hub/datasets/nyu-mll--glue/sst2" / commit(SST2)
    assert found.source == f"hub:nyu-mll/glue/sst2@{commit(SST2)}"
    assert (found.name, found.kind, found.licence) == ("nyu-mll/glue/sst2", "hub", "mit")
    assert (found.files, found.hidden) == (("train.jsonl", "validation.jsonl"), ("test",))
    left = {".lock", "manifest.json", "train.jsonl", "validation.jsonl"}
    assert {path.name for path in found.folder.iterdir()} == left
    assert capfd.readouterr() == ("", "")  # of the libraries


def test_the_same_rows_in_another_file_are_the_same_bytes(hub: HubServer) -> None:
    first, second = dataset(), dataset("a/rewritten")
    assert first.source != second.source
    assert first.digests == second.digests


@pytest.mark.parametrize("revision", ["main", commit(SST2)])
def test_what_is_here_is_not_asked_for_and_a_branch_only_looked_up(hub: HubServer, revision: str) -> None:
    first = dataset(revision=revision)
    assert len(hub.asked()) > 0
    assert dataset(revision=revision) == first
    looked_up = {"/api/datasets/nyu-mll/glue/revision/main"} if revision == "main" else set()
    assert {request.path for request in hub.asked()} == looked_up
    assert dataset(revision=revision, offline=True) == first
    assert hub.asked() == []


def test_a_datasets_older_name_and_no_revision_are_its_newest_commit_also_offline(hub: HubServer) -> None:
    found = dataset("glue/sst2", None, None)
    assert found.source == f"hub:nyu-mll/glue/sst2@{commit(SST2)}"
    hub.asked()
    assert dataset("glue/sst2", None, None, offline=True) == dataset(SST2, "sst2", None, offline=True) == found
    assert hub.asked() == []


def test_offline_and_absent_is_told_without_asking(hub: HubServer) -> None:
    dataset()
    hub.asked()
    assert no_dataset(SST2, "cola", offline=True) == (
        "dataset nyu-mll/glue (cola, main) is not on this machine and --offline forbids the download; "
        "run `permafrost data fetch hub:nyu-mll/glue/cola@main` first."
    )
    assert hub.asked() == []


def test_rows_that_changed_in_the_cache_or_were_not_finished_are_made_again(hub: HubServer) -> None:
    found = dataset(revision=commit(SST2))
    path = found.folder / "train.jsonl"
    before = path.read_text()
    path.write_text(before.replace("positive", "negative", 1))
    path.with_name("validation.jsonl").touch()
    assert "not on this machine" in no_dataset(SST2, "sst2", commit(SST2), offline=True)
    assert (dataset(revision=commit(SST2)), path.read_text()) == (found, before)
    path.with_name("manifest.json").unlink()
    assert "not on this machine" in no_dataset(SST2, "sst2", commit(SST2), offline=True)
    assert (dataset(revision=commit(SST2)), path.read_text()) == (found, before)


def test_a_branch_of_converted_files_is_read_by_configuration(hub: HubServer) -> None:
    found = dataset("eriktks/conll2003", "conll2003", "refs/convert/parquet")
    assert found.files == ("train.jsonl", "test.jsonl")
    assert [json.loads(line) for line in (found.folder / "train.jsonl").read_text().splitlines()] == [
        {"tokens": ["Ada", "Byron", "wrote"], "ner_tags": ["B-PER", "I-PER", "O"]},
        {"tokens": ["yes"], "ner_tags": ["O"]},
    ]
    assert dataset("eriktks/conll2003", "conll2003", "refs/convert/parquet", offline=True) == found


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
        (CONLL, None, "main", f"dataset {CONLL} at 'main' is a program (conll2003.py), which `datasets` no longer"),
        ("a/gated", "sst2", "main", f"dataset a/gated {GATED}"),
        ("nyu-mll/glu", None, "main", "dataset nyu-mll/glu is not at URL, or is private."),
        (SST2, None, "v9", f"dataset {SST2} has no revision 'v9'. Its branches and tags"),
        ("a/empty", None, "main", "dataset a/empty cannot be read: "),
        ("a/broken", None, "main", "dataset a/broken cannot be read: "),
        ("a/bytes", None, "main", "dataset a/bytes, split train: column 'x' holds Value('binary'); only text, numbers"),
        ("a/partial", "x", CONVERTED, "dataset a/partial: the hub converted only a part of 'x'. Use another source."),
    ],
)
def test_a_dataset_that_cannot_be_had_is_told(
    hub: HubServer, repo: str, config: str | None, revision: str, message: str
) -> None:
    told = no_dataset(repo, config, revision)
    assert told.startswith(message.replace("URL", hub.url))
    assert "\n" not in told


@each(
    "status, words",
    [
        (429, "too many requests (HTTP 429)"),
        (403, "access is refused (HTTP 403)"),
        (500, "(HTTP 500). Try again later"),
    ],
)
def test_a_refusal_of_the_server_is_told(hub: HubServer, status: int, words: str) -> None:
    hub.status = status
    assert words in no_dataset()


def test_a_token_that_is_not_accepted_is_told_and_not_shown(hub: HubServer) -> None:
    hub.accepts = "hf_another"
    message = no_dataset()
    assert "the token of this machine is not accepted (HTTP 401)" in message
    assert TOKEN not in message
    assert hub.asked()[0].headers["authorization"] == f"Bearer {TOKEN}"  # it is sent


@each(
    "repo, config, message",
    [
        *((repo, None, f"{repo!r} is not a name on the hub, which is OWNER/NAME, e.g. nyu-mll/glue.")
          for repo in ("a/b/c", "../glue", "", "a b/c", "/etc")),
        *((SST2, config, f"{config!r} is not the name of a configuration.") for config in ("", "../x")),
    ],
)  # fmt: skip
def test_what_cannot_be_a_name_is_refused_without_asking(
    hub: HubServer, repo: str, config: str | None, message: str
) -> None:
    assert no_dataset(repo, config).endswith(message)
    assert hub.asked() == []


# --- Rows


TAGS = ClassLabel(names=["O", "B-LOC"])


def written(path: Path, features: dict[str, Any], *rows: dict[str, Any]) -> tuple[str, bool]:
    """The text of the file, and whether it is labelled; rows go through the library as a download does."""
    columns = {name: [row[name] for row in rows] for name in features}
    table = datasets.Dataset.from_dict(columns, features=Features(features))
    labelled = write_rows(table, table.features, path / "x.jsonl")
    return (path / "x.jsonl").read_bytes().decode("utf-8"), labelled


def test_keys_are_sorted_and_letters_stand_as_they_are(tmp_path: Path) -> None:
    text, _ = written(tmp_path, {"b": Value("string"), "a": Value("int32")}, {"b": "é\u2028\n", "a": 1})
    assert text == '{"a":1,"b":"é\u2028\\n"}\n'


@each("feature", [List(TAGS), LargeList(TAGS), Sequence(TAGS), List(TAGS, length=2)])
def test_class_numbers_in_lists_become_names(tmp_path: Path, feature: Any) -> None:
    assert written(tmp_path, {"tags": feature}, {"tags": [0, 1]})[0] == '{"tags":["O","B-LOC"]}\n'


def test_what_is_absent_hidden_or_no_number_is_null(tmp_path: Path) -> None:
    features = {"tag": TAGS, "tags": List(TAGS), "text": Value("string"), "score": Value("float32")}
    text, _ = written(tmp_path, features, {"tag": -1, "tags": None, "text": None, "score": math.nan})
    assert json.loads(text) == {"tag": None, "tags": None, "text": None, "score": None}


@each(
    "features, rows, labelled",
    [
        ({"label": TAGS}, [-1, -1], False),
        ({"label": TAGS}, [-1, 0], True),
        ({"label": TAGS}, [], True),
        ({"label": Value("float32")}, [-1.0, -1.0], False),  # GLUE's regression, STS-B
        ({"label": Value("float32")}, [-1.0, 2.5], True),
        ({"score": Value("float32")}, [-1.0, -1.0], True),
    ],
)
def test_a_split_is_hidden_where_every_label_is_minus_one(
    tmp_path: Path, features: dict[str, Any], rows: list[float], labelled: bool
) -> None:
    (name,) = features
    assert written(tmp_path, features, *[{name: value} for value in rows])[1] is labelled


@each("feature", [Value("binary"), datasets.Image(), List(Value("binary")), {"part": Value("binary")}])
def test_a_column_of_neither_text_nor_numbers_is_named(feature: Any) -> None:
    with pytest.raises(DataError, match=r"column 'x(\.part)?' holds .*; only text, numbers and classes, or lists of"):
        converter("x", feature)


# --- Models


@each(
    "name, means",
    [
        ("starter", {"folder": "starter"}),
        ("trials", {"folder": "trials"}),
        ("./bert", {"folder": "./bert"}),
        ("~/bert", {"folder": "~/bert"}),
        ("a/b/c", {"folder": "a/b/c"}),
        ("C:/models/bert", {"folder": "C:/models/bert"}),
        ("bert-base-cased", {"hub": "bert-base-cased"}),
        ("google-bert/bert-base-cased@refs/pr/1", {"hub": BERT, "revision": "refs/pr/1"}),
        ("hub:trials", {"hub": "trials"}),
        ("hub:a/b@v1", {"hub": "a/b", "revision": "v1"}),
    ],
)
def test_a_name_is_first_a_folder_then_a_repository(
    monkeypatch: pytest.MonkeyPatch, name: str, means: dict[str, str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    assert named_model(name) == ModelDraft(**means)


def test_a_model_comes_with_configuration_weights_and_tokenizer_alone_and_tells_their_bytes(hub: HubServer) -> None:
    told: list[tuple[str, str, int, int | None]] = []
    before = progress.set(lambda *step: told.append(step))
    found = fetch_model("a/model", "main", allow_pickle=False, offline=False)
    progress.reset(before)
    assert {path.name: path.read_bytes() for path in found.folder.iterdir()} == FILES
    assert found.folder.name == commit("a/model", kind="models")
    assert told[-1] == ("download", "a/model", 1000, 1000)
    assert [step[2] for step in told] == sorted(step[2] for step in told)


def test_weights_in_several_files_come_with_their_index_and_only_whole_are_used_offline(hub: HubServer) -> None:
    found = fetched("a/sharded")
    assert len(list(found.folder.glob("model-*.safetensors"))) == 2
    assert fetched("a/sharded", offline=True) == found
    (found.folder / "model-00002-of-00002.safetensors").unlink()
    assert "is not on this machine" in no_model("a/sharded", offline=True)


@pytest.mark.parametrize("name", ["bert-base-cased", BERT])
def test_a_name_is_the_newest_commit_under_the_hubs_own_name(hub: HubServer, name: str) -> None:
    found, newest = fetched(name), commit(BERT, kind="models")
    assert (found.source, found.folder.name) == (f"hub:{BERT}@{newest}", newest)
    hub.asked()
    assert fetched(name, offline=True) == fetched(name, newest) == found
    assert hub.asked() == []
    hub.repos["models", BERT] = model(BERT, FILES | {"model.safetensors": b"other"})
    assert fetched(name).source != found.source
    assert fetched(name, newest) == found


def test_a_file_whose_bytes_changed_in_the_cache_is_downloaded_again_alone(hub: HubServer) -> None:
    found = fetched(BERT)
    path = found.folder / "model.safetensors"
    before = path.read_bytes()
    path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
    hub.asked()
    assert "is not on this machine" in no_model(BERT, offline=True)
    assert (fetched(BERT), path.read_bytes()) == (found, before)
    assert {request.path.rpartition("/")[2] for request in hub.asked() if "resolve" in request.path} == {path.name}


# --- Offline


@pytest.mark.parametrize("given", [{"offline": True}, {}])
def test_offline_a_branch_is_the_commit_that_the_cache_has_it_at(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", not given)
    folder = cached_snapshot("acme/tiny", OLD, FILES, branch="main")
    cached_snapshot("acme/tiny", NEW, FILES)
    assert fetched("acme/tiny", "main", **given) == fetched("acme/tiny", OLD, **given)
    assert fetched("tiny", **given).folder == folder
    cached_snapshot("other/tiny", OLD, FILES, branch="main")
    assert no_model("tiny", **given) == (
        "model tiny: the cache has several of this name. Say which: acme/tiny, other/tiny."
    )
    assert hub.asked() == []


@each("variable, value, is_off", [
     ("HF_HUB_OFFLINE", "1", True), ("HF_HUB_OFFLINE", "0", False), ("TRANSFORMERS_OFFLINE", "yes", True),
     ("HF_DATASETS_OFFLINE", "ON", True), ("HF_DATASETS_OFFLINE", "no", False)])  # fmt: skip
def test_the_libraries_own_switches_mean_offline(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, *, is_off: bool
) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    if variable != "HF_DATASETS_OFFLINE":  # the library reads the others when it is imported
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", constants._is_true(value))
    assert download_ban(offline=False, datasets=True) == (variable if is_off else None)


def test_what_the_switch_forbids_is_told_by_its_name(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert no_model("acme/absent").startswith(
        "model acme/absent (main) is not on this machine and HF_HUB_OFFLINE forbids the download; run "
        "`permafrost data fetch --sweep FILE` or the same command without HF_HUB_OFFLINE first."
    )
    assert hub.asked() == []


def test_without_a_connection_it_is_told_and_what_is_here_is_found(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows, found = dataset(revision=commit(SST2)), fetched("a/model")
    with HubServer() as gone:
        pass
    point_at(gone, monkeypatch, tmp_path)
    for message in (no_dataset(), no_model("a/none")):
        assert f"cannot reach {gone.url} (" in message
        assert "or work with what is on this machine (--offline). Nor is it a file or folder here." in message
    assert dataset(revision=commit(SST2)) == rows
    assert fetched("a/model", offline=True) == found


@each(
    "error, words",
    [
        (OfflineModeIsEnabled(), "is not on this machine, and HF_HUB_OFFLINE forbids the download."),
        (OSError(errno.ENOSPC, "No space left on device", "/hf"), "/hf: No space left on device. Fix this, or set HF_"),
        (FileNotFoundError("no hf_averysecrettoken\nhere"), "cannot be read: no *** here. Use another revision"),
    ],
)
def test_what_the_libraries_raise_is_told_in_our_words(error: Exception, words: str) -> None:
    assert words in explain(error, Repo("datasets", SST2, "main"))


# --- Models refused


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
def test_a_model_that_cannot_be_had_is_told(hub: HubServer, repo: str, revision: str, words: str) -> None:
    assert no_model(repo, revision).startswith(words)


@each("name, near", [("my-modle", "my-model"), ("startr", "starter"), ("deep/modle", "deep/model")])
def test_a_misspelt_folder_is_told_with_what_is_near(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, near: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my-model", "deep/model"):
        (tmp_path / folder).mkdir(parents=True)
    assert no_model(name) == (
        f"model {name} is not at {hub.url}, or is private. Nor is it a file or folder here. Did you mean {near!r}? "
        "Check the name; if it is private, log in (`hf auth login`, or set HF_TOKEN)."
    )


@each(
    "name, words",
    [
        ("./my-modle", r"no model folder at .*/my-modle\. Did you mean 'my-model'\? Give a folder"),
        ("bert-base-cased", r"has no config\.json, so it is no model\..* or write hub:"),
    ],
)
def test_a_folder_that_is_misspelt_or_no_model_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my-model", "bert-base-cased"):
        (tmp_path / folder).mkdir()
    with pytest.raises(ModelError, match=words):
        find_model(named_model(name))


@each(
    "config, words",
    [
        ({"model_type": "zebra", "auto_map": {"AutoModel": "modeling_zebra.Zebra"}},
         "model_type: 'zebra' is an architecture of code that came with the model (auto_map), which is never run"),
        ({"model_type": "t5"}, "t5 is refused"),
        ({"model_type": "bert", "quantization_config": {"quant_method": "gptq"}}, "its weights are quantised"),
    ],
)  # fmt: skip
def test_what_a_configuration_rules_out_is_refused_without_its_weights(
    hub: HubServer, config: dict[str, Any], words: str
) -> None:
    hub.repos["models", "acme/odd"] = model("acme/odd", FILES | {"config.json": json.dumps(config).encode()})
    with pytest.raises(ModelError, match=re.escape(words)):
        find_model(named_model("acme/odd"))
    assert not any("model.safetensors" in request.path for request in hub.asked())


def test_a_pickle_comes_only_where_it_is_allowed_and_a_pull_request_may_have_safetensors(hub: HubServer) -> None:
    pickle = {"config.json": CONFIG, "pytorch_model.bin": b"p", "tokenizer.json": b"{}"}
    requests: dict[str, Files] = {"refs/pr/3": FILES}
    hub.repos["models", "a/pickle"] = HubRepo("models", "a/pickle", pickle, branches=requests)
    assert no_model("a/pickle").endswith(
        "has its weights only as a pickle (pytorch_model.bin), and reading a pickle can run code that came with it. If "
        "you trust its author, say `allow_pickle: true` in a sweep file; else name a revision with model.safetensors, "
        "which is often waiting as a pull request (refs/pr/N)."
    )
    assert not any("pytorch_model.bin" in request.path for request in hub.asked())
    found = fetched("a/pickle", allow_pickle=True)
    assert (found.folder / "pytorch_model.bin").read_bytes() == b"p"
    assert fetched("a/pickle", allow_pickle=True, offline=True) == found
    assert "can run code" in no_model("a/pickle", offline=True)
    other = fetched("a/pickle", "refs/pr/3")
    assert other.folder.name == hub.repos["models", "a/pickle"].commit("refs/pr/3")
    assert fetched("a/pickle", "refs/pr/3", offline=True) == other


@each("address, name", [
    ("https://huggingface.co/a/b", "a/b"), ("https://hf.co/a/b/tree/v1", "a/b@v1"),
    ("https://huggingface.co/squad", "squad"), ("https://huggingface.co/a/b?library=x", "a/b")])  # fmt: skip
def test_the_address_of_a_page_of_the_hub_means_its_repository(address: str, name: str) -> None:
    assert named_model(address) == named_model(name)
    page = address.replace("hf.co/", "huggingface.co/").replace("huggingface.co/", "huggingface.co/datasets/")
    assert DataDraft.keys_of(page) == DataDraft.keys_of(name)
