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


def broken(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        Document.read(path)
    return str(error.value)


@each(
    "path, line, key",
    [
        (("name",), 1, "name"),
        (("trial", "optim", "lr"), 4, "trial.optim.lr"),
        (("space", "freeze", 1), 8, "space.freeze[1]"),
        (("space", "freeze", 1, "depth"), 8, "space.freeze[1].depth"),
        (("trial", "optim", "epochs"), 3, "trial.optim.epochs"),  # not written down: the key above it
    ],
)
def test_a_key_is_placed_on_its_line_or_that_of_the_key_above(
    document: Document, path: KeyPath, line: int, key: str
) -> None:
    assert document.place(path) == f"{document.path}:{line}: {key}: "


def test_a_key_with_nothing_above_it_is_placed_in_the_file(document: Document) -> None:
    assert document.place(("seeds",)) == f"{document.path}: seeds: "
    assert document.place(()) == f"{document.path}: "


def test_a_setting_replaces_a_value_and_its_place(document: Document) -> None:
    document.override("trial.optim.lr=2.5")
    assert document.content["trial"]["optim"]["lr"] == 2.5
    assert document.place(("trial", "optim", "lr")) == "--set trial.optim.lr=2.5: trial.optim.lr: "


def test_what_lies_inside_a_replaced_value_is_placed_at_the_setting(document: Document) -> None:
    document.override("space.freeze=[all_encoder]")
    assert document.place(("space", "freeze", 0)) == "--set space.freeze=[all_encoder]: space.freeze[0]: "


def test_a_setting_makes_the_mappings_it_needs(document: Document) -> None:
    document.override("resources.cpus=2")
    assert document.content["resources"] == {"cpus": 2}


def test_keys_of_the_space_are_dotted_and_stay_one_key(document: Document) -> None:
    document.override("space.optim.lr=[1, 2]")
    assert document.content["space"]["optim.lr"] == [1, 2]


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


def test_a_key_given_twice_names_its_second_line(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    assert broken(path, b"trial:\n  seed: 1\n  seed: 2\n") == f"{path}:3: trial.seed: is given twice. Keep one."


def test_a_key_given_twice_inside_a_list_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    message = broken(path, b"space:\n  freeze:\n  - {depth: 1, depth: 2}\n")
    assert message == f"{path}:3: space.freeze[0].depth: is given twice. Keep one."


@each("content", [b"", b"# nothing\n", b"- a\n- b\n", b"just words\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.yaml"
    rule = "must be a mapping of keys, like the files in configs/sweeps/ and configs/clusters/."
    assert broken(path, content) == f"{path}: {rule}"


def test_broken_yaml_names_its_line(tmp_path: Path) -> None:
    message = broken(tmp_path / "s.yaml", b"name: a\nspace: [1, 2\ntrial: {}\n")
    assert message.startswith(f"{tmp_path / 's.yaml'}:3: not YAML: ")
    assert message.endswith("Check the indentation and brackets.")


@each("content", [b"name: 2024-99-99\n", b"name: \x00\n", b"a: &a [*b]\n", b"name: !!python/x 1\n"])
def test_any_broken_yaml_is_one_line_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    message = broken(tmp_path / "s.yaml", content)
    assert message.startswith(f"{tmp_path / 's.yaml'}")
    assert "not YAML" in message
    assert "\n" not in message


def test_an_alias_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    assert broken(path, b"a: &a [*a]\n") == f"{path}: nests without end. Remove the alias that contains itself."


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    assert broken(tmp_path / "s.yaml", b"name: caf\xe9\n") == f"{tmp_path / 's.yaml'}: not UTF-8 text."


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read \(No such file or directory\)") as error:
        Document.read(tmp_path / "none.yaml")
    assert error.value.exit_code == 3
