"""The tests that are skipped where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record

ROOT = Path(__file__).parents[4]
REASON = "there is no GPU"


def run(context: PartContext, record: Record) -> None:
    """Run them under pytest, without the options that need its plugins."""
    import hypothesis  # noqa: F401  # without these two the part is skipped, and says so
    import pytest  # noqa: F401

    files = sorted(path for path in (ROOT / "tests" / "trials").rglob("test_*.py") if REASON in path.read_text("utf-8"))
    report = context.work / "pytest.xml"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.lab.gpu.only_gpu_tests",
        "-o", "addopts=", "-o", "filterwarnings=", f"--junitxml={report}", *map(str, files),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=context.left_s(2.0),
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # a plugin may lack what it needs
    )  # fmt: skip
    record.note(files=[str(path.relative_to(ROOT)) for path in files], exit_code=done.returncode)
    if not report.exists():
        raise RuntimeError(f"pytest wrote no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = [
        {"test": f"{case.get('classname')}::{case.get('name')}", "why": (problem.text or "")[-1500:]}
        for case in suite.iter("testcase")
        for problem in [*case.findall("failure"), *case.findall("error")]
    ]
    record.note(**counts, failed=failed)
    record.check("GPU tests that fail", counts["failures"] + counts["errors"], 0)
    if context.on_gpu:  # elsewhere all of them are skipped, which shows no more than that they can be collected
        ran = counts["tests"] - counts["skipped"]
        record.check("GPU tests that were skipped", counts["skipped"] if ran else None, 0)
