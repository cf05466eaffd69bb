"""An installed wheel: the project's packages and nothing beside them, with the sweeps and studies it ships."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_it_installs_only_the_three_packages(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {
        "dashboards", "orchestrator", "trials",
    }  # fmt: skip


def test_it_plans_the_starter_sweep_and_knows_the_published_studies(installed: Path, tmp_path: Path) -> None:
    code = """
from orchestrator.extras.published.study import STUDIES
from dashboards.cli import app
print(*STUDIES)
app(["plan", "--offline", "--store", "results"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1", "COLUMNS": "400"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "emekaeze_pos" in done.stdout
    assert f"{installed}/orchestrator/configs/sweeps/starter.yaml" in done.stdout


def test_it_has_the_study_that_the_demo_opens(installed: Path) -> None:
    code = "from dashboards.commands.dashboard import DEMO_STORE; print(DEMO_STORE)"
    env = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    store = Path(done.stdout.strip())
    assert store.is_relative_to(installed)
    assert {path.name for path in store.parent.iterdir()} > {"README.md", "core.yaml"}
    assert len(list(store.glob("trials/*.parquet"))) == 1
