"""Files that try to run a command when they are read: none does, and each is refused in one message."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from orchestrator.api.model_card import base_licence
from orchestrator.config.yaml_document import Document
from orchestrator.store import open_store
from orchestrator.store.schema import SCHEMA_VERSION, VERSION_KEY, stamped_name
from tests.examples import each
from tests.orchestrator.store.rows import prediction, trial
from tests.trials.conftest import save_tiny_model
from trials.corpora.formats.table_reader import read_parquet
from trials.errors import ConfigError, DataError, ModelError
from trials.model_checks.checked_models import check_model
from trials.models.load import load_model, load_tokenizer
from trials.outside import plain_files
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import Columns, ModelSpec


class Attack:
    """What makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self.mark}'",)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that only an attack makes."""
    return tmp_path / "attacked"


def test_the_attack_works_where_nothing_is_done_about_it(mark: Path) -> None:
    pickle.loads(pickle.dumps(Attack(mark)))
    assert mark.exists()


# --- YAML


TAGS = (
    '!!python/object/apply:os.system ["touch MARK"]',
    '!!python/object/new:os.system ["touch MARK"]',
    '!!python/object/apply:subprocess.check_output [["touch", "MARK"]]',
    "!!python/name:os.system",
    "!!python/module:os",
    '!<tag:yaml.org,2002:python/object/apply:os.system> ["touch MARK"]',
)


@each("tag", TAGS)
def test_a_tag_of_python_in_a_sweep_is_no_yaml(tag: str, mark: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"name: a\ntrial: {tag.replace('MARK', str(mark))}\n")
    with pytest.raises(ConfigError, match=r"s\.yaml:2: not YAML: could not determine a constructor for the tag"):
        Document.read(path)
    assert not mark.exists()


@each("tag", TAGS)
def test_a_tag_of_python_in_a_setting_is_no_yaml(tag: str, mark: Path, tmp_path: Path) -> None:
    document = Document(tmp_path / "s.yaml", {}, {})
    with pytest.raises(ConfigError, match="the value is not YAML"):
        document.override(f"trial={tag.replace('MARK', str(mark))}")
    assert not mark.exists()


@each("licence", [*TAGS, '!!int ""', "[" * 3000, "&a [*a]", "mit"])
def test_a_models_card_is_read_like_a_sweep(licence: str, mark: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"---\nlicense: {licence.replace('MARK', str(mark))}\n---\n")
    assert base_licence(tmp_path) == ("mit" if licence == "mit" else None)
    assert not mark.exists()


# --- Parquet


def pickled_type(mark: Path) -> pa.Field:
    """A column whose type is an extension that pyarrow once unpickled when it read a file (CVE-2023-47248)."""
    metadata = {"ARROW:extension:name": "arrow.py_extension_type"}
    return pa.field(
        "text", pa.string(), metadata=metadata | {"ARROW:extension:metadata": pickle.dumps(Attack(mark), protocol=0)}
    )


def test_a_type_that_is_a_pickle_is_not_loaded_from_a_corpus(mark: Path, tmp_path: Path) -> None:
    schema = pa.schema([pickled_type(mark), ("label", pa.string())])
    pq.write_table(pa.table([pa.array(["a"]), pa.array(["x"])], schema=schema), tmp_path / "x.parquet")
    (text,) = read_parquet(tmp_path / "x.parquet", Columns(text="text", label="label"))
    assert (text[0], mark.exists()) == ("a", False)


def test_a_type_that_is_a_pickle_is_not_loaded_from_a_store(mark: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    store.append("trials", [trial("a")])
    schema = pa.schema([pickled_type(mark).with_name("trial_id")], metadata={VERSION_KEY: str(SCHEMA_VERSION)})
    put_part(tmp_path / "store" / "trials", pa.table([pa.array(["a"])], schema=schema))
    assert len(store.trials()) == 0  # it lacks the attempt and all the rest
    assert not mark.exists()


def put_part(folder: Path, rows: pa.Table) -> None:
    """Make these rows the only part of a table, under a name that has their digest."""
    for part in folder.iterdir():
        part.unlink()
    pq.write_table(rows, sink := pa.BufferOutputStream())
    content = sink.getvalue().to_pybytes()
    (folder / stamped_name("part", 1, content, "parquet")).write_bytes(content)


@pytest.mark.parametrize("column", ["text", "label"])
def test_a_cell_that_is_a_pickle_is_no_text(column: str, mark: Path, tmp_path: Path) -> None:
    cells = {"text": ["a"], "label": ["x"], column: [pickle.dumps(Attack(mark))]}
    pq.write_table(pa.table(cells), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet:row 1: the (text|label) is b"):
        read_parquet(tmp_path / "x.parquet", Columns(text="text", label="label"))
    assert not mark.exists()


def test_a_cell_that_is_a_pickle_is_left_out_of_a_store(
    mark: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    store.append("predictions", [prediction("a")])
    table = store.predictions("a")
    n = table.column_names.index("forms")
    forged = table.set_column(n, "forms", pa.array([pickle.dumps(Attack(mark))]))
    put_part(tmp_path / "store" / "predictions", forged.replace_schema_metadata({VERSION_KEY: str(SCHEMA_VERSION)}))
    assert len(store.predictions("a")) == 0
    assert "a column has another type" in caplog.text
    assert not mark.exists()


# --- Models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT."""
    return save_tiny_model("bert", tmp_path / "model")


def load(spec: ModelSpec) -> None:
    load_tokenizer(spec, "tokens")
    load_model(spec, head="tokens", n_outputs=3, dropout=None, init=torch.Generator())


def test_weights_that_run_a_command_are_refused_without_leave(folder: Path, mark: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Attack(mark)}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="its weights are a pickle"):
        find_model(ModelDraft(folder=str(folder)))
    assert not mark.exists()


def test_even_with_leave_only_tensors_are_read_of_a_pickle(folder: Path, mark: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Attack(mark)}, folder / "pytorch_model.bin")
    spec = find_model(ModelDraft(folder=str(folder), allow_pickle=True))
    with pytest.raises(ModelError, match="its pickle holds more than tensors"):
        load(spec)
    assert not mark.exists()


@pytest.mark.parametrize("family", ["bert", "clip_text_model", "nobody-knows"])
def test_code_that_comes_with_a_model_is_neither_run_nor_offered(
    family: str, folder: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ("AutoConfig", "AutoModel", "AutoModelForTokenClassification", "AutoModelForSequenceClassification")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": family, "auto_map": dict.fromkeys(parts, "own.Class")}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Class", "own.Class"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Class: pass\n")
    monkeypatch.setattr("builtins.input", lambda prompt="": pytest.fail(f"a person was asked: {prompt}"))
    with contextlib.suppress(ModelError):
        load(find_model(ModelDraft(folder=str(folder))))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "a/../../x.safetensors", "pytorch_model.bin", "..", "", 3, None]
)
def test_an_index_of_weights_leads_to_no_other_folder(name: object, folder: Path) -> None:
    (folder.parent / "outside.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"weight": name}}))
    with pytest.raises(ModelError, match="is not a weights file in this folder"):
        find_model(ModelDraft(folder=str(folder)))


@pytest.mark.parametrize(
    ("length", "rule"),
    [(0, "has 0 bytes in a file of"), (40 << 20, "has 41,943,040 bytes in .*, and may have 16,777,216")],
)
def test_a_header_of_weights_is_measured_before_anything_is_read(length: int, rule: str, folder: Path) -> None:
    with (folder / "model.safetensors").open("wb") as file:  # a sparse one
        file.write(length.to_bytes(8, "little"))
        file.truncate(60 << 30)
    with pytest.raises(ModelError, match=rule):
        find_model(ModelDraft(folder=str(folder)))


@each("name", ["tokenizer.json", "vocab.txt", "vocab.tsv", "merges.codes"])
def test_a_vocabulary_is_of_bounded_size(name: str, folder: Path) -> None:
    with (folder / name).open("ab") as file:
        file.truncate(129 << 20)
    with pytest.raises(ModelError, match=rf"{name}: cannot be read \(larger than the 134,217,728 bytes"):
        find_model(ModelDraft(folder=str(folder)))
    (folder / name).unlink()


def test_a_tokenizer_that_makes_gigabytes_of_a_word_is_ended_in_a_process_of_its_own(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    longer = [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 2_000} for _ in range(3)]
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": longer}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelError, match="its tokenizer takes more than 2 GiB of memory or 60 s for a few words"):
        check_model(find_model(ModelDraft(folder=str(folder))), "tokens")


def test_a_plan_of_more_bytes_than_any_has_is_left_out_unread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    store.append("trials", [trial("a")])
    (tmp_path / "store" / "sweeps" / "forged").mkdir(parents=True)
    with (tmp_path / "store" / "sweeps" / "forged" / stamped_name("plan", 1, b"", "json")).open("wb") as file:
        file.truncate(100 << 30)
    assert store.sweeps() == []
    assert "larger than the 536,870,912 bytes that it may have" in caplog.text


def test_a_large_file_whose_digest_is_taken_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "_LARGE", 2_000_000)
    said: list[tuple[str, str, int, int | None]] = []
    before = plain_files.progress.set(lambda *step: said.append(step))
    for n_bytes in (2_000_000, 2_500_000):
        (tmp_path / f"{n_bytes}.txt").write_bytes(bytes(n_bytes))
        plain_files.digest_of(tmp_path / f"{n_bytes}.txt")
    plain_files.progress.reset(before)
    assert said == [("read", "2500000.txt", done, 2_500_000) for done in (1 << 20, 2 << 20, 2_500_000)]
