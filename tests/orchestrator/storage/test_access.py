"""A store of another user: what may not be read is one error in words, and never less of a store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.storage.storage import AccessError, FolderStorage
from tests.dashboards.stores import specs, write_store
from tests.examples import each

OTHER = 65534
DROP_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")  # root without them obeys permissions

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can make files of another user"
)


@pytest.fixture
def others_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of another user with a file, while this process is neither."""
    folder = tmp_path / "others"
    folder.mkdir(mode=0o700)
    (folder / "file").write_bytes(b"x")
    tmp_path.chmod(0o755)
    os.seteuid(OTHER)
    yield folder
    os.seteuid(0)


CALLS: dict[str, Callable[[FolderStorage], object]] = {
    "files": lambda storage: storage.files(),
    "folders": lambda storage: storage.folders(),
    "inside": lambda storage: storage.files_by_folder(),
    "exists": lambda storage: storage.exists("file"),
    "open": lambda storage: storage.open("file"),
    "read": lambda storage: storage.read("file"),
    "write": lambda storage: storage.write("file", b"y"),
    "create": lambda storage: storage.create("file", b"y"),
    "delete": lambda storage: storage.delete("file"),
    "is_free": lambda storage: storage.is_free(),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_of_a_folder_that_may_not_be_read_says_so(name: str, others_folder: Path) -> None:
    with pytest.raises(AccessError, match=r"cannot be (read|written|deleted) \(Permission denied\)\. Make it \w+able"):
        CALLS[name](FolderStorage(others_folder))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("access") / "store"
    write_store(folder, specs(seeds=(0, 1), train_sizes=(200,)))
    return folder


PARTS = ("store.json", "trials/*.parquet", "sweeps", "sweeps/*/*.json")
COMMANDS = (("status",), ("store", "verify"), ("export", "store", "copy"))


@pytest.mark.slow
@each("part", PARTS)
def test_every_command_ends_with_3_where_a_part_of_a_store_is_of_another_user(
    part: str, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "store")
    for path in (tmp_path / "store").glob(part):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, OTHER, OTHER)
    program = str(Path(sys.executable).with_name("permafrost"))
    for command in COMMANDS:
        words = [*DROP_CAPABILITIES, program, *command, "--store", "store"]
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr.count("\n")) == (3, 1), (command, ended.stderr)
        assert "cannot be read (Permission denied). Make it readable first." in ended.stderr
        assert "intact" not in ended.stdout
