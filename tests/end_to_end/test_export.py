"""From a sweep to a model folder to predictions: `export model` and `pipeline`, on trials that were really trained.

Most calls share this process, as an import of torch takes longer than they do; one chain runs as a person runs it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
import yaml
from safetensors import safe_open
from transformers import pipeline
from typer.testing import CliRunner, Result

from orchestrator.api import find_trial
from orchestrator.commands.app import app
from orchestrator.execution.trial_rows import epoch_row
from orchestrator.store.schema import EPOCHS
from tests.examples import each
from tests.orchestrator.store.real import COMPUTED
from tests.small_sweeps import POS, launched, write_bank, write_entities, write_reviews
from tests.trials.conftest import save_tiny_model
from trials.run import run_trial

MORE = """
trial: {lowercase: true, optim: {lr: 1e-3, head_lr: 1e-2, epochs: 2, batch_size: 8}}
space:
  cases:
    - task: pos
      data: {folder: bank}
      lora: {rank: 4, targets: linear}
      freeze: {strategy: first_k, depth: 2}
      optim.lr: 1e-2
    - {task: ner, data: {folder: entities}, optim.epochs: 1}
    - {task: classification, data: {folder: reviews}, optim.lr: 2e-4, optim.epochs: 3}
    - {task: stsb, data: {folder: reviews, columns: {text: text, label: score}}, optim.epochs: 1}
    - {task: pos, data: {folder: bank}, model: {folder: cased}, optim.lr: 1e-2, max_length: 32}
predictions: all
keep: weights
"""


class Exported:
    """A store, and a model folder of each of its trials.

    Attributes:
        before: What had ended before any was exported.
        rows: The trial's row in the store, by the name of the folder: tagger, adapted, ner, texts, number, cased.
    """

    def __init__(self, folder: Path) -> None:
        write_bank(folder / "bank", train=32, dev=16, test=6)
        write_entities(folder / "entities")
        write_reviews(folder / "reviews")
        save_tiny_model("bert", folder / "cased", positions=64)
        launched(folder, POS)
        self.folder, self.store = folder, launched(folder, MORE, "more")
        self.before = self.ended()
        self.rows = {_name(row): row for row in self.store.trials().to_pylist() if row["seed"] == 0}
        for name in self.rows:
            done = self.export(name, folder / "models" / name)
            assert done.exit_code == 0, done.output

    def ended(self) -> list[tuple[Any, ...]]:
        """Every trial, the attempt that ended it, and when."""
        return [(row["trial_id"], row["attempt"], row["time"]) for row in self.store.trials().to_pylist()]

    def export(self, name: str, out: Path, *words: str) -> Result:
        trial_id = self.rows[name]["trial_id"]
        return run("export", "model", "--trial", trial_id, "--store", self.store.root, "-o", out, *words)

    def model(self, name: str) -> Path:
        return self.folder / "models" / name

    def card(self, name: str) -> tuple[dict[str, Any], str]:
        """Header and text."""
        _, header, text = (self.model(name) / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        return yaml.safe_load(header), text

    def dev_labels(self, name: str) -> list[str | None]:
        """What the store keeps of the trial's predictions on dev."""
        found = self.store.predictions(self.rows[name]["trial_id"]).to_pylist()
        return [label for row in found if row["split"] == "dev" for label in row["predicted"]]


def _name(row: dict[str, Any]) -> str:
    if row["task"] == "pos":
        return "cased" if row["model"] == "cased" else "adapted" if json.loads(row["spec"])["lora"] else "tagger"
    return {"ner": "ner", "classification": "texts", "stsb": "number"}[row["task"]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(tmp_path_factory.mktemp("exported"))


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.parametrize("name", ["tagger", "adapted", "ner"])
def test_a_pipeline_of_transformers_tags_words_with_it(name: str, exported: Exported) -> None:
    labels = set(filter(None, exported.dev_labels(name)))
    found = pipeline("token-classification", model=str(exported.model(name)))("Mr house went to the river.")
    assert [entry["word"] for entry in found] or name == "ner"
    assert {entry["entity"] for entry in found} <= labels | {"O"}


@pytest.mark.parametrize("name", ["texts", "number"])
def test_a_pipeline_gives_texts_the_labels_that_the_sweep_kept(name: str, exported: Exported) -> None:
    rows = (exported.folder / "reviews" / "dev.tsv").read_text().splitlines()[1:]
    found = pipeline("text-classification", model=str(exported.model(name)))([row.split("\t")[0] for row in rows])
    kept = [label for label in exported.dev_labels(name) if label is not None]
    if name == "texts":
        assert [entry["label"] for entry in found] == kept
    else:  # other batches, so other last digits
        assert [entry["score"] for entry in found] == pytest.approx(list(map(float, kept)), abs=1e-4)


def test_a_pipeline_lowers_case_by_itself_where_the_trial_did(exported: Exported) -> None:
    tag = pipeline("token-classification", model=str(exported.model("cased")))
    shouted, said = tag("BEA ADDED A CAD."), tag("bea added a cad.")
    assert [entry["entity"] for entry in shouted] == [entry["entity"] for entry in said]
    assert [entry["score"] for entry in shouted] == [entry["score"] for entry in said]


def test_frozen_weights_are_those_of_the_encoder(exported: Exported) -> None:
    with safe_open(exported.model("tagger") / "model.safetensors", "pt") as tuned:
        spec = json.loads(exported.rows["tagger"]["spec"])
        with safe_open(Path(spec["model"]["path"]) / "model.safetensors", "pt") as pretrained:
            for name in ("transformer.layer.0.ffn.lin1.weight", "transformer.layer.5.ffn.lin1.weight"):
                before = next(pretrained.get_tensor(key) for key in pretrained.keys() if key.endswith(name))  # noqa: SIM118
                after = tuned.get_tensor(f"distilbert.{name}")
                assert torch.equal(before, after) == (".0." in name)


def test_the_header_of_the_card_is_the_hubs(exported: Exported) -> None:
    row, (header, _) = exported.rows["tagger"], exported.card("tagger")
    (index,) = header.pop("model-index")
    assert header == {
        "license": "cc-by-sa-4.0",  # of the starter model's own card
        "library_name": "transformers",
        "pipeline_tag": "token-classification",
        "metrics": ["accuracy", "macro_f1"],
    }
    assert [result["dataset"] for result in index["results"]] == [
        {"type": "bank", "name": "bank", "split": split} for split in ("dev", "test")
    ]
    accuracy = index["results"][1]["metrics"][0]
    assert accuracy == {
        "type": "accuracy", "name": "accuracy (points)", "value": round(100 * row["test_score"], 2)
    }  # fmt: skip
    assert exported.card("texts")[0]["pipeline_tag"] == "text-classification"
    assert exported.card("cased")[0]["license"] == "unknown"


def test_the_card_tells_data_freezing_scores_and_seeds(exported: Exported) -> None:
    row, (_, text) = exported.rows["tagger"], exported.card("tagger")
    assert "bank: 32 train, 16 dev, 6 test items, of which 32 were used for training." in text
    assert "- Encoder, starter: cc-by-sa-4.0\n- Data, bank: Free for tests\n" in text
    assert (
        "`■ ■■■■□□` (first the embeddings) first 4 + embeddings, that is layers 1 to 4 of 6 and the embeddings frozen."
        in text
    )
    assert f"{row['trainable_params']:,} of {row['total_params']:,} parameters were trained" in text
    assert f"| accuracy | {100 * row['best_score']:.2f} | {100 * row['test_score']:.2f} |" in text
    assert re.search(r"Dev score over the seeds [01], [01]: \d+\.\d\d ± \d+\.\d\d", text)
    assert f"trial `{row['trial_id']}`, seed 0" in text
    assert "Retrained for this folder" not in text  # on a CPU the same bits
    assert "One seed: the variation over seeds is not known." in exported.card("ner")[1]
    assert "- Encoder, cased: unknown\n" in exported.card("cased")[1]


def test_a_licence_may_be_given_an_empty_folder_used_and_every_file_has_the_mode_that_the_umask_gives(
    exported: Exported, tmp_path: Path
) -> None:
    done = exported.export("ner", tmp_path, "--licence", "cc-by-4.0")
    assert done.exit_code == 0
    assert (tmp_path / "README.md").read_text().startswith("---\nlicense: cc-by-4.0\n")
    assert str(tmp_path) in done.stdout
    (tmp_path / "mine").write_text("")
    assert {path.name: path.stat().st_mode for path in tmp_path.iterdir() if path.is_file()} == dict.fromkeys(
        (path.name for path in tmp_path.iterdir() if path.is_file()), (tmp_path / "mine").stat().st_mode
    )


def test_a_folder_that_holds_something_is_not_written_to(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    done = exported.export("tagger", tmp_path)
    assert (done.exit_code, done.stdout) == (4, "")
    assert "already exists. Choose a new folder with -o" in done.stderr
    assert "again" not in done.stderr.partition("error")[0]  # nothing was trained in vain
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@each("name, n", [("adapted", 2), ("ner", 1), ("texts", 3), ("number", 1)], quick=1)  # export repeats the rest
def test_every_kind_of_trial_comes_out_the_same_to_the_bit(name: str, n: int, exported: Exported) -> None:
    row, names = exported.rows[name], ("step", *COMPUTED["epochs"])
    spec = find_trial(row["trial_id"], store=exported.store.address)
    again = [epoch_row(spec, 1, record) for record in run_trial(spec, device=torch.device("cpu"), predictions="none")]
    found = pa.Table.from_pylist(again, EPOCHS).select(names).to_pylist()  # as a store returns them
    epochs = exported.store.epochs().sort_by("step")
    stored = epochs.filter(pc.equal(epochs["trial_id"], row["trial_id"])).select(names).to_pylist()
    assert (len(found), found) == (n, stored)


def test_the_store_is_as_it_was(exported: Exported) -> None:
    assert len(exported.before) == 7
    assert exported.ended() == exported.before
