"""A mistake is one clear message: place, rule, way out; exit code 2 or 3, nothing written, no traceback."""

from __future__ import annotations

from pathlib import Path

from typer.testing import Result

from tests.builders import write_sweep
from tests.end_to_end.conftest import Here, write_small_sweep
from tests.examples import each

GOOD = "1\ta\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"


def check(done: Result, tmp_path: Path, code: int, *said: str) -> None:
    """What every refusal has in common."""
    assert done.exit_code == code, done.stderr
    err = done.stderr
    assert done.stdout == ""
    assert "Traceback" not in err
    for words in said:
        assert words in err
    assert not (tmp_path / "store").exists()


@each("line, instead, code, said", [
        ("seeds: [0, 1]", "seeds: [0, 1", 2, ":11: not YAML"),
        ("seeds: [0, 1]", "sedes: [0, 1]", 2, ":10: sedes: unknown 'sedes', did you mean 'seeds'?"),
        ("[24]", "[24, 25]", 2, ":8: space.train_size[1]: 25 is larger than the train split, which has 24"),
        ("{folder: two}", "{folder: absent}", 3, "absent. Give the folder that holds"),
        ("lowercase: true", "model: ./absent", 3, "no model folder at"),
    ])  # fmt: skip
def test_a_mistake_in_the_yaml_is_named_with_file_line_and_key(
    line: str, instead: str, code: int, said: str, tmp_path: Path, here: Here
) -> None:
    sweep = write_small_sweep(tmp_path)
    text = sweep.read_text(encoding="utf-8")
    assert line in text
    sweep.write_text(text.replace(line, instead), encoding="utf-8")
    check(here("launch", "--sweep", sweep, "--store", "store"), tmp_path, code, said)


def test_every_broken_line_of_a_corpus_is_told_with_the_sweeps_line_and_key(tmp_path: Path, here: Here) -> None:
    (tmp_path / "bank").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "bank" / f"{split}.conllu").write_text("1\ta\tNOUN\n\n" + GOOD + f"x\t{split}\tNOUN\n\n")
    sweep = write_sweep(tmp_path / "own.yaml", "space: {data: [{folder: bank}]}\n")
    done = here("launch", "--sweep", sweep, "--store", "store")
    check(done, tmp_path, 3, "2 errors:\n", "train.conllu:1: ", "dev.conllu:1: ")
    assert done.stderr.count("space.data[0]: ") == done.stderr.count(" Likewise line 5.\n") == 2
