"""Every example of CONTRIBUTING.md runs: what it registers is used as a sweep, a store or a page would use it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from dashboards.views.registry import PARTS
from orchestrator.analysis.summary import STATISTICS
from orchestrator.extras.published.study import read_study
from orchestrator.store.schema import epochs_columns
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.search_spec import SEARCHES, less_is_better
from tests.dashboards.views.made import made
from tests.docs.snippets import DOCUMENTS
from tests.trials.conftest import save_tiny_model
from trials.corpora.corpus import CORPUS_FORMATS
from trials.draft import Lookup, TrialDraft
from trials.errors import DataError
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.metrics.metric import METRICS
from trials.models.family import MODEL_FAMILIES
from trials.models.load import family_of, load_model
from trials.plugins.registry import Registry
from trials.sources.places.corpus_draft import DataDraft
from trials.tasks.task import TASKS, words_of
from trials.tasks.task_corpus import read_corpus

GUIDE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = {
    code.partition("\n")[0].removeprefix("# "): code for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
}
REGISTRIES: tuple[Registry[Any], ...] = (
    FREEZE_STRATEGIES, TASKS, METRICS, MODEL_FAMILIES, CORPUS_FORMATS, SEARCHES, STATISTICS,
)  # fmt: skip
Run = Callable[[str], ModuleType]


def draft(**settings: Any) -> TrialDraft:
    return TrialDraft.model_validate({"data": "UD_English-EWT-sample", "max_length": 24, **settings})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs an example as the module that its first line names; what it registers is gone after the test."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    used = []

    def run_example(path: str) -> ModuleType:
        module = ModuleType(path.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(EXAMPLES[path], f"<{path}>", "exec"), module.__dict__)  # coverage knows no such file
        used.append(path)
        return module

    yield run_example
    assert used, "the test ran no example"


def test_every_example_is_run_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert EXAMPLES
    assert [path for path in EXAMPLES if f'run("{path}")' not in source] == []


def test_a_strategy_freezes_its_layers_under_its_word_in_a_draft(run: Run) -> None:
    run("trials/freeze/middle_k.py")
    spec = draft(freeze={"strategy": "middle_k", "depth": 2}).resolve(Lookup(offline=True))
    assert spec.freeze.layers == (2, 3)
    assert spec.freeze.strategy == "middle_k"


def test_a_task_selects_by_its_metric_and_reads_its_column(run: Run) -> None:
    run("trials/tasks/xpos.py")
    spec = draft(task="xpos").resolve(Lookup(offline=True))
    assert TASKS["xpos"].metrics[0] == "macro_f1"
    assert TASKS["xpos"].levels == ("token",)
    assert TASKS["xpos"].label_names(read_corpus("xpos", spec.data).train)


def test_a_metric_is_measured_stored_and_minimised(run: Run) -> None:
    run("trials/metrics/error_rate.py")
    places = np.array([0, 1, 1, 0])
    measured = TASKS["pos"].measure(places, np.array([0, 1, 0, 0]), np.array([0]), ("A", "B"))
    assert measured["error_rate"] == pytest.approx(0.25)
    assert "error_rate" in epochs_columns(METRICS.values())
    assert less_is_better("error_rate")


def test_a_family_divides_its_model_into_three_parts(run: Run, tmp_path: Path) -> None:
    run("trials/models/megatron.py")
    model = draft(model=str(save_tiny_model("megatron-bert", tmp_path / "model"))).resolve(Lookup(offline=True)).model
    loaded = load_model(model, head="tokens", n_outputs=3, dropout=0.0, init=torch.Generator())
    modules = [loaded.parts.embeddings, *loaded.parts.encoder_layers, *loaded.parts.head]
    counted = sum(parameter.numel() for module in modules for parameter in module.parameters())
    assert family_of(model) is MODEL_FAMILIES["megatron-bert"]
    assert counted == sum(parameter.numel() for parameter in loaded.model.parameters())


def test_a_format_is_read_under_its_word_and_names_the_broken_line(run: Run, tmp_path: Path) -> None:
    run("trials/corpora/formats/slash_reader.py")
    for split, tag in (("train", "NOUN"), ("dev", "VERB")):
        (tmp_path / f"{split}.txt").write_text(f"Ice/NOUN melts/VERB\nso/ADV it/{tag}\n")
    data = DataDraft(train=(str(tmp_path / "train.txt"),), dev=(str(tmp_path / "dev.txt"),), format="slashes")
    assert words_of(read_corpus("pos", data.resolve()).train[0]) == ("Ice", "melts")
    (tmp_path / "broken.txt").write_text("fine/ADJ\nnot fine/ADJ\n")
    with pytest.raises(DataError, match=r"broken\.txt:2: a word has no /TAG"):
        CORPUS_FORMATS["slashes"](tmp_path / "broken.txt", data.resolve().columns)


def test_a_search_kind_is_a_word_of_a_sweep(run: Run, tmp_path: Path) -> None:
    run("orchestrator/sweeps/corners.py")
    space = "{train_size: [10, 20, 30], optim.epochs: [1, 2, 3]}"
    text = f"name: corners\ntrial: {{data: UD_English-EWT-sample}}\nspace: {space}\nsearch: corners\n"
    (tmp_path / "sweep.yaml").write_text(text)
    sweep, document = load_sweep(tmp_path / "sweep.yaml", [])
    trials = expand(sweep, document, Lookup(offline=True))
    assert [(spec.train_size, spec.optim.epochs) for spec in trials] == [(10, 1), (10, 3), (30, 1), (30, 3)]


def test_a_view_prepares_and_draws_its_part(run: Run, tmp_path: Path) -> None:
    view = run("dashboards/views/best_epochs.py").VIEW
    (part,) = view.parts
    drawn = compute(part, made(tmp_path / "store"), LIGHT)
    assert drawn.figure is not None
    assert "none" in drawn.figure["data"][0]["x"]
    assert len(drawn.table) == 5


def test_a_statistic_is_a_column_of_the_table_of_settings(run: Run, tmp_path: Path) -> None:
    run("worst_seed.py")
    table = compute(PARTS["depth-table"], made(tmp_path / "store"), LIGHT).table
    assert table["worst seed (%)"].tolist() == pytest.approx(table["min (%)"].tolist(), abs=1e-4)


def test_a_published_study_is_read_from_its_file(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "small_study.yaml").write_text(text)
    study = read_study(tmp_path / "small_study.yaml")
    assert [(number.freeze, number.low) for number in study.numbers()] == [("none", 0.93), ("first_3", 0.92)]


def test_every_file_of_ours_that_a_document_names_exists() -> None:
    root = Path(__file__).parents[1]
    pattern = r"`((?:tests|orchestrator|trials|dashboards|configs|docker|docs)/[\w./-]+)`"
    documents = {*DOCUMENTS, *root.glob("*.md")}
    named = {(file.name, path) for file in documents for path in re.findall(pattern, file.read_text(encoding="utf-8"))}
    there = {(name, path) for name, path in named if (root / path).exists() or (root / f"{path}.py").exists()}
    assert {(name, path) for name, path in named - there if path != "docs/site"} == set()  # which `make docs` makes
