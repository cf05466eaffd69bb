"""Nothing in the packages can run what a store, a hub or a URL supplies."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.security.scan import dangers, readers

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path for package in ("trials", "orchestrator", "dashboards") for path in (ROOT / package).rglob("*.py")
)


IMPORTS_OWN = ROOT / "orchestrator/config/extras.py"  # the folders of our extras, and what these say of themselves


def test_no_module_can_run_what_others_supply() -> None:
    found = {path: wrong for path in MODULES if (wrong := dangers(path.read_text(encoding="utf-8")))}
    assert found.keys() == {IMPORTS_OWN}
    assert all("import_module" in wrong for wrong in found[IMPORTS_OWN])


def test_torch_loads_no_pickle() -> None:
    """Weights go through transformers, which is told whether a pickle was allowed; checkpoints are safetensors."""
    assert [path for path in MODULES if "torch.load(" in path.read_text(encoding="utf-8")] == []


def test_leave_for_a_pickle_is_the_only_way_to_one() -> None:
    """A model is loaded with safetensors only, unless its spec says otherwise, as a draft's `allow_pickle` does."""
    said = {
        ast.unparse(keyword.value)
        for path in MODULES
        if "use_safetensors" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "use_safetensors"
    }
    assert said == {"not spec.pickle"}


# Modules that open a file otherwise than through `trials.outside.plain_files`, and whose name it is.
OTHER_READERS = {
    "trials/outside/plain_files.py": "the opener itself",
    "trials/models/model_files.py": "the library's, after the file's stamp was taken",
    "trials/model_checks/weights_fit.py": "the library's, after the shapes were read, which took the file's stamp",
    "trials/cache/encoding.py": "numpy's, after the file's stamp was taken",
    "trials/prefix/files.py": "to write",
    "trials/sources/cache.py": "a lock",
    "trials/sources/download.py": "part of a download, which it wrote itself",
    "trials/cache/node_cache.py": "the kernel's",
    "trials/datasets/text_file.py": "the kernel's",
    "trials/hardware/machine.py": "the kernel's",
    "trials/hardware/device.py": "the kernel's",
    "trials/hardware/worker_memory.py": "the kernel's",
    "trials/hardware/energy.py": "the kernel's",
    "trials/training/gradient_check.py": "the kernel's",
    "orchestrator/deploy/requirements.py": "pyproject.toml of this checkout",
    "trials/models/products.py": "the kernel's",
    "orchestrator/claims/holder.py": "the kernel's",
    "orchestrator/deploy/ray_session.py": "to write",
    "orchestrator/monitoring/json_log.py": "without following links, and never waiting",
    "orchestrator/ray_backend/driver.py": "of Ray, in a folder that this process made",
    "orchestrator/ray_backend/shared_folder.py": "what this process wrote",
    "orchestrator/storage/storage.py": "folders, to flush them",
    "orchestrator/ray_backend/cluster.py": "the kernel's",
    "orchestrator/store/schema.py": "a storage's",
    "orchestrator/extras/trackers/export_command.py": "a tracker, no file",
    "orchestrator/extras/trackers/live_tracker.py": "a tracker, no file",
    "dashboards/report/html.py": "plotly.js of this package",
}


def test_files_that_others_name_are_opened_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): calls for path in MODULES if (calls := readers(path.read_text(encoding="utf-8")))
    }
    assert {module: calls for module, calls in found.items() if module not in OTHER_READERS} == {}
    there = {module for module in OTHER_READERS if (ROOT / module).parent.is_dir()}  # an extra may have been deleted
    assert sorted(there - found.keys()) == []
