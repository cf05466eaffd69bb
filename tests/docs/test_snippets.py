"""Every command of the documents is one of the command line, and every YAML snippet is valid where it belongs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

import dashboards.cli  # noqa: F401  (its commands join those of the orchestrator)
from orchestrator.commands.app import COMMANDS as SINGLE
from orchestrator.commands.app import GROUPS, load_command
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.load_sweep import load_sweep
from tests.docs.snippets import ALL, CHECKOUT, COMMANDS, Block, needs_extras
from tests.examples import each
from trials.draft import TrialDraft

PERMAFROST = [(page, words) for page, words in COMMANDS if words[0] == "permafrost"]
# Commands of other programs, and why no test runs them from the page.
OTHERS = {
    "git": "clones this repository from where it will be published",
    "docker": "needs Docker; tests/docker/test_compose.py reads the same files",
    "docker/make_secrets.sh": "writes into the checkout; tests/docker/test_compose.py runs it in a copy",
    "docker/make_certificates.sh": "tests/docker/test_tls.py runs it",
    "openssl": "its output goes to kubectl",
    "kubectl": "needs Kubernetes; tests/docker/test_manifests.py checks the manifests",
    "sbatch": "needs Slurm",
    "ray": "needs a cluster; tests/end_to_end/test_cluster.py submits to one",
    "nginx": "tests/dashboards/serving/test_proxy.py runs it with the same file",
    "hf": "needs the hub and an account",
    "export": "sets variables for a cluster of several machines",
    ".": "activates an environment",
    "for": "unpacks what was carried to another machine; tests/lab/gpu/test_gpu.py does the same",
    "python": "tests/lab/gpu/test_gpu.py runs that program, in parts",
    "python3": "tests/lab/gpu/test_gpu.py runs that program, in parts",
}
CONTENT = {  # where a snippet's first key belongs
    "sweep": {"name", "space", "search", "schedule", "goal"},
    "trial": {"model", "data", "freeze", "optim"},
    "cluster": {"address"},
}


def name_of(words: list[str]) -> str:
    """The program of a command, past the variables that are set for it."""
    return next(word for word in words if not re.match(r"[A-Z_]+=", word))


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a `permafrost` command as its own parser reads them; nothing runs."""
    name, *arguments = words[1:]
    if name in GROUPS:
        inner, *arguments = arguments
        full_name = f"{name} {inner}"
        command = load_command(full_name) if full_name in SINGLE else load_command(name).commands[inner]
    else:
        command = load_command(name)
    options: dict[str, Any] = command.make_context(name, [*arguments]).params
    return options


@needs_extras
@each("page, words", PERMAFROST)
def test_the_command_line_understands_every_command(page: str, words: list[str]) -> None:
    assert parsed(words)


def test_every_target_of_make_exists() -> None:
    targets = {words[1] for _, words in COMMANDS if words[0] == "make"}
    done = subprocess.run(["make", "--dry-run", *targets], cwd=CHECKOUT, capture_output=True, check=False)
    assert {"sweep", "test"} <= targets
    assert done.returncode == 0


def test_every_other_program_is_listed_with_the_reason_why_it_is_not_run() -> None:
    others = {name_of(words) for _, words in COMMANDS} - {"permafrost", "make"}
    assert others <= OTHERS.keys()
    assert all(os.access(CHECKOUT / name, os.X_OK) for name in others if name.startswith("docker/"))


YAML = [block for block in ALL if block.language == "yaml"]


@each("block", YAML)
def test_every_yaml_snippet_is_valid_where_it_belongs(block: Block, tmp_path: Path) -> None:
    content = yaml.safe_load(block.text)
    (kind,) = [kind for kind, keys in CONTENT.items() if next(iter(content)) in keys]
    path = tmp_path / "snippet.yaml"
    if kind == "trial":
        assert TrialDraft.model_validate({"data": "UD_English-EWT-sample", **content})
    elif kind == "cluster":
        path.write_text(block.text, encoding="utf-8")
        assert find_cluster(str(path)).address == content["address"]
    else:
        path.write_text(yaml.safe_dump({"name": "snippet", **content}), encoding="utf-8")
        assert load_sweep(path, [])[0].name
