"""A trial of a plug-in that is not loaded is shown as such, under the identity that it has with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.answer import freeze_yaml
from orchestrator.analysis.cells import cell_columns, freeze_name, layer_strip
from orchestrator.analysis.summary import summarise
from orchestrator.session.display import cell_tables
from tests.builders import make_spec
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.test_contributing import EXAMPLES
from trials.errors import ConfigError
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.metrics.metric import metric_label
from trials.plugins.loading import load
from trials.spec import TrialSpec
from trials.tasks import TASKS

MIDDLE = {"strategy": "middle_k", "layers": (2, 3), "embeddings": True}
HALF_TIME = {"strategy": "adaptive", "layers": (), "embeddings": False, "rule": {"name": "half_time", "trained": 2}}


def test_a_strategy_keeps_its_layers_and_its_id() -> None:
    spec = make_spec(freeze=MIDDLE)
    assert freeze_name(spec.freeze.label) == "layers 3 to 4 by middle_k (plug-in not loaded) + embeddings"
    assert layer_strip(spec.freeze.label, 6) == "■ □□■■□□"
    assert freeze_yaml(spec.freeze, 6) == "trial:\n  freeze: {strategy: layers, layers: [2, 3], embeddings: true}\n"
    assert spec.trial_id == make_spec(freeze={**MIDDLE, "strategy": "layers"}).trial_id


def test_a_rule_keeps_its_parameters_and_its_id(fresh_plugins: None, tmp_path: Path) -> None:
    spec = make_spec(freeze=HALF_TIME)
    assert spec.freeze.label == "adaptive (half_time, plug-in not loaded)"
    assert TrialSpec.model_validate_json(spec.model_dump_json()).trial_id == spec.trial_id
    (tmp_path / "half_time_rule.py").write_text(EXAMPLES["trials/freeze/half_time.py"])
    load(["half_time_rule"], [tmp_path])
    assert make_spec(freeze=HALF_TIME).trial_id == spec.trial_id


def test_a_task_and_a_metric_are_named_in_tables() -> None:
    specs = [make_spec(task="xpos"), make_spec(task="xpos", freeze=MIDDLE)]
    assert cell_columns(specs[0])["metric"] == "score of xpos (plug-in not loaded)"
    assert metric_label("error_rate") == "error rate (plug-in not loaded)"
    assert len(list(cell_tables(summarise(specs, [])))) == 3  # with two lines below


@pytest.mark.parametrize("registry", [FREEZE_STRATEGIES, TASKS], ids=lambda registry: registry.kind)
def test_who_needs_the_plug_in_is_told_in_words(registry: object) -> None:
    with pytest.raises(ConfigError, match="unknown 'xpos'"):
        registry["xpos"]  # type: ignore[index]
