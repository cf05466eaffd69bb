"""A YAML file that knows the line of each key, with settings put over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.config.yaml_document import Document, KeyPath
from tests.examples import each
from trials.errors import ConfigError

SWEEP = """\
name: tiny
trial:
  optim:
    lr: 1
space:
  freeze:
    - none
    - {strategy: first_k, depth: 2}
"""


@pytest.fixture
def document(tmp_path: Path) -> Document:
    (tmp_path / "s.yaml").write_text(SWEEP)
    return Document.read(tmp_path / "s.yaml")


@each(
    "path, at, key",
    [
        (("name",), ":1", "name: "),
        (("trial", "optim", "lr"), ":4", "trial.optim.lr: "),
        (("space", "freeze", 1), ":8", "space.freeze[1]: "),
        (("space", "freeze", 1, "depth"), ":8", "space.freeze[1].depth: "),
        (("trial", "optim", "epochs"), ":3", "trial.optim.epochs: "),  # not written down: the key above it
        (("seeds",), "", "seeds: "),  # nothing above it: the file
        ((), "", ""),
    ],
)
def test_a_key_is_placed_on_its_line_or_that_of_the_key_above(
    document: Document, path: KeyPath, at: str, key: str
) -> None:
    assert document.place(path) == f"{document.path}{at}: {key}"


def test_a_setting_replaces_a_value_and_its_place_and_makes_the_mappings_it_needs(document: Document) -> None:
    for setting in ("trial.optim.lr=2.5", "space.freeze=[all_encoder]", "resources.cpus=2", "space.optim.lr=[1, 2]"):
        document.override(setting)
    content = document.content
    assert (content["trial"]["optim"]["lr"], content["resources"]) == (2.5, {"cpus": 2})
    assert content["space"]["optim.lr"] == [1, 2]  # keys of the space are dotted and stay one key
    assert document.place(("trial", "optim", "lr")) == "--set trial.optim.lr=2.5: trial.optim.lr: "
    assert document.place(("space", "freeze", 0)) == "--set space.freeze=[all_encoder]: space.freeze[0]: "


@each(
    "setting, message",
    [
        ("seeds", "--set seeds: must be KEY=VALUE, e.g. --set seeds=[0,1]."),
        ("=3", "--set =3: must be KEY=VALUE, e.g. --set seeds=[0,1]."),
        ("seeds=[0", "--set seeds=[0: the value is not YAML."),
        ("name=2024-99-99", "--set name=2024-99-99: the value is not YAML."),
        ("name.x=1", "--set name.x=1: name is 'tiny', which has no keys."),
    ],
)
def test_a_setting_that_cannot_be_put_over_the_file_is_refused(document: Document, setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        document.override(setting)
    assert str(error.value) == message


NO_MAPPING = ": must be a mapping of keys, like the files in configs/sweeps/ and configs/clusters/."


@each(
    "content, begins, ends",
    [
        (b"trial:\n  seed: 1\n  seed: 2\n", ":3: trial.seed: is given twice. Keep one.", ""),
        (b"space:\n  freeze:\n  - {depth: 1, depth: 2}\n", ":3: space.freeze[0].depth: is given twice. Keep one.", ""),
        *((content, NO_MAPPING, "") for content in (b"", b"# nothing\n", b"- a\n- b\n", b"just words\n")),
        (b"name: a\nspace: [1, 2\ntrial: {}\n", ":3: not YAML: ", "Check the indentation and brackets."),
        (b"a: &a [*a]\n", ": nests without end. Remove the alias that contains itself.", ""),
        (b"name: caf\xe9\n", ": not UTF-8 text.", ""),
        *(
            (content, ":", "")
            for content in (b"name: 2024-99-99\n", b"name: \x00\n", b"a: &a [*b]\n", b"name: !!x 1\n")
        ),
    ],
)
def test_a_broken_file_is_refused_in_one_line_that_names_it(
    tmp_path: Path, content: bytes, begins: str, ends: str
) -> None:
    (path := tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        Document.read(path)
    message = str(error.value)
    assert message.startswith(f"{path}{begins}")
    assert message.endswith(ends)
    assert "\n" not in message
    assert "not YAML" in message or begins != ":"
