"""What a model card says of an encoder and a corpus that are on the hub, and of those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.api.model_card import _against_baseline, hub_model, model_card
from tests.builders import make_spec
from tests.dashboards.stores import STRATEGIES, specs, write_store
from trials.sources.hub_client import Repo

COMMIT = "5f" * 20
SNAPSHOT = f"/home/x/.cache/huggingface/hub/models--Face-AI--a-base/snapshots/{COMMIT}"


def header(tmp_path: Path, path: str, source: str | None) -> dict[str, Any]:
    store = write_store(tmp_path / path.strip("/"), specs(seeds=range(1)))
    row, spec = store.trials().to_pylist()[0], make_spec()
    changed = {"model": spec.model.model_copy(update={"path": path}),
               "data": spec.data.model_copy(update={"source": source})}  # fmt: skip
    card = model_card(spec.model_copy(update=changed), row, store, score=row["best_score"], licence="mit")
    found: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    return found


def test_a_model_and_a_dataset_of_the_hub_are_linked_and_what_is_elsewhere_is_not(tmp_path: Path) -> None:
    found = header(tmp_path, SNAPSHOT, f"hub:nyu-mll/glue/sst2@{COMMIT}")
    assert (found["base_model"], found["datasets"]) == ("Face-AI/a-base", ["nyu-mll/glue"])
    assert found["model-index"][0]["results"][0]["dataset"]["revision"] == COMMIT
    assert {"base_model", "datasets"}.isdisjoint(header(tmp_path, "/models/mine", "ud:UD_English-EWT@2.16"))


@pytest.mark.parametrize("folder", [f"{SNAPSHOT}/onnx", "/home/x/models--no/snapshots/main", "starter"])
def test_a_folder_that_is_no_snapshot_of_the_hub_names_no_repository_but_a_model_may_say_itself_where_it_came_from(
    folder: str,
) -> None:
    assert hub_model(make_spec().model.model_copy(update={"path": folder})) is None
    source = {"path": "/cache/models--a-base", "source": f"hub:Face-AI/a-base@{COMMIT}"}
    assert hub_model(make_spec().model.model_copy(update=source)) == Repo("models", "Face-AI/a-base", COMMIT)


def test_the_card_of_a_model_trained_on_more_has_the_loss_of_the_sweep_that_asked(tmp_path: Path) -> None:
    write_store(tmp_path / "s", specs(train_sizes=(200,), strategies=STRATEGIES[:2]), sweep="bank")
    trained = specs(train_sizes=(800,), strategies=STRATEGIES[1:2])
    store = write_store(tmp_path / "s", trained, sweep="train-bank")
    frozen = next(spec for spec in trained if not spec.freeze.is_baseline)
    said = _against_baseline(frozen, store.trials().to_pylist(), store)
    assert "trained on 200 items: on dev it" in said
