"""The commands and the Python of the pages run, page by page, in a folder that holds what they presuppose."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.store import open_store
from tests.docs.snippets import ALL, CHECKOUT, Block, commands
from tests.docs.test_snippets import OTHERS, name_of
from tests.small_sweeps import write_bank
from trials.plugins.registry import registries

MY_SWEEP = """
name: starter
trial:
  data: {folder: my-corpus}
  train_size: 20
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1.0e-3, head_lr: 5.0e-3, epochs: 1}
space:
  freeze: [none, {strategy: all_encoder, embeddings: true}]
seeds: [0, 1, 2, 3, 4]
"""
# Commands of ours that are only parsed (`test_snippets.py`), and why.
ONLY_PARSED = {
    r"http://head|--cluster auto": "needs a cluster; tests/end_to_end/test_cluster.py submits to one",
    r"(s3|gs)://": "needs a bucket; tests/orchestrator/store runs over an S3 server of its own",
    r"distilbert|xlmr?|nyu-mll|UD_English-EWT(?!-sample)": "needs the hub; tests/trials/sources has one",
    r"path/to": "stands for a folder of somebody's",
    r"emekaeze": "needs the hub; tests/end_to_end/test_configs.py runs the demo sweeps",
    r"export runs --to mlflow": "needs a server; tests/orchestrator/extras/trackers has one",
    r"export runs --to wandb": "starts W&B's own process; tests/orchestrator/extras/trackers does",
    r"^permafrost (dashboard|demo)": "serves until it is stopped; tests/browser opens every page",
    r"\.svg$": "a browser draws it; tests/dashboards/report has the pictures",
    r"starter_depth\.yaml": "minutes; tests/end_to_end/test_searches.py runs a smaller one",
    r"^permafrost train": "trains several models; tests/orchestrator/api/test_api.py does, to their end",
    r"doctor": "says what this machine lacks; tests/orchestrator/commands has its tests",
}
# What is added to a command or replaced in it, so that it takes seconds here; the rest is run as it stands.
CHANGES = (
    (r"^(permafrost launch.*)$", r"\1 --cluster inline"),  # tests/end_to_end/test_ray.py has Ray
    (r"^(permafrost choose.*)$", r"\1 --dry-run --cluster inline"),  # tests/orchestrator/api runs one to its end
    (r"^(permafrost report.*)$", r"\1 --no-pictures"),  # they need a browser
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sweeps, corpora and two stores."""
    folder = tmp_path_factory.mktemp("walkthrough")
    shutil.copytree(CHECKOUT / "configs", folder / "configs")
    write_bank(folder / "my-corpus", train=30, dev=8, test=8)
    sweep = MY_SWEEP.replace("my-corpus", str(folder / "my-corpus"))
    (folder / "my.yaml").write_text(sweep)
    (folder / "my_asha.yaml").write_text(f"{sweep}schedule: {{kind: asha, first: 0.5}}\n")
    reviews = [f"A {word} film number {n}.,{star}" for n in range(60) for word, star in (("good", 5), ("bad", 1))]
    (folder / "reviews.csv").write_text("\n".join(["review,stars", *reviews, ""]))
    run(f"launch --sweep {folder}/my.yaml --store {folder}/results --cluster inline --set keep=weights")
    shutil.copytree(folder / "results", folder / "other")
    return folder


@pytest.fixture
def workplace(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working folder; what a page registers is gone after it."""
    for registry in registries():
        monkeypatch.setattr(registry, "_plugins", dict(registry.items()))
        monkeypatch.setattr(registry, "_modules", dict(registry._modules))
    shutil.copytree(prepared, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run(line: str) -> None:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, f"permafrost {line}\n{result.output}\n{result.exception}"


def some_trial(folder: Path) -> str:
    return str(min(open_store(folder / "results").trials()["trial_id"].to_pylist()))


def changed(words: list[str], folder: Path) -> str:
    """A command as it is run here; ID stands for a trial of the store."""
    line = shlex.join(some_trial(folder) if word == "ID" else word for word in words)
    for pattern, replacement in CHANGES:
        line = re.sub(pattern, replacement, line)
    return line.removeprefix("permafrost ")


def is_run(words: list[str]) -> bool:
    line = " ".join(words)
    return name_of(words) not in {"make", *OTHERS} and not any(re.search(reason, line) for reason in ONLY_PARSED)


HAVE_CODE = {block.page for block in ALL if block.language == "python" or any(map(is_run, commands(block)))}
PAGES = sorted(HAVE_CODE - {"docker/README.md", "README.md"})


def follow(block: Block, folder: Path) -> int:
    """Do what a block says; how many commands and pieces of Python it has."""
    if block.title:
        (folder / block.title).write_text(block.text, encoding="utf-8")
    if block.language == "python":
        code = block.text.replace("TRIAL", some_trial(folder))
        exec(compile(code, f"<{block.page}>", "exec"), {})
    for words in (found := list(filter(is_run, commands(block)))):
        run(changed(words, folder))
    return len(found) + (block.language == "python")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_runs_from_its_beginning_to_its_end(page: str, workplace: Path) -> None:
    if page == "docs/pages/tutorial.md":  # begins with nothing
        shutil.rmtree(workplace / "results")
    assert sum(follow(block, workplace) for block in ALL if block.page == page) > 0


def test_every_reason_for_not_running_a_command_is_needed() -> None:
    lines = [" ".join(words) for block in ALL for words in commands(block)]
    assert [reason for reason in ONLY_PARSED if not any(re.search(reason, line) for line in lines)] == []
    assert sum(map(is_run, (words for block in ALL for words in commands(block)))) > 20
