"""Files that are not the corpus: none is quoted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.extras.published.study import read_study
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.builders import write_treebank
from tests.examples import each, first
from trials.draft import Lookup
from trials.errors import MAX_QUOTED, ConfigError, DataError
from trials.sources.places.corpus_draft import DataDraft


@pytest.mark.parametrize("form", first(1, ["columns", "tsv", "conllu"]))
def test_a_file_of_proc_is_no_corpus_and_not_quoted(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter22")
    draft = DataDraft(train=("/proc/self/environ",), dev=("/proc/self/status",), format=form)
    with pytest.raises(DataError, match="not a regular file") as caught:
        draft.resolve()
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("target", ["/proc/self/environ", "../secret.conllu", "loop"])
def test_a_link_out_of_a_corpus_folder_is_refused_by_name(target: str, tmp_path: Path) -> None:
    bank = write_treebank(tmp_path / "bank")
    (tmp_path / "secret.conllu").write_text("hunter22\n")
    train = next(path for path in bank.iterdir() if "train" in path.name)
    train.unlink()
    train.symlink_to(train if target == "loop" else target)
    with pytest.raises(DataError) as caught:
        DataDraft(folder=str(bank)).resolve()
    assert train.name in str(caught.value) or "is not a path" in str(caught.value)
    assert "hunter22" not in str(caught.value)


@each("form", ["columns", "tsv", "csv", "jsonl", "conllu"], quick=1)
def test_an_error_quotes_little_of_a_file(form: str, tmp_path: Path) -> None:
    from trials.corpora.corpus import CORPUS_FORMATS
    from trials.spec import Columns

    secret = "".join(f"{n:04}" for n in range(500))
    path = tmp_path / f"a.{form}"
    path.write_text(f'{secret}\n"{secret}\t{secret}\n')
    columns = Columns(text="text", label="label") if form in ("tsv", "csv", "jsonl") else Columns()
    with pytest.raises(DataError) as caught:
        CORPUS_FORMATS[form](path, columns)
    assert secret[: MAX_QUOTED + 1] not in str(caught.value)


SECRETS = [f"user{n}: $6$hunter22{n}" for n in range(25)]


@each("first_lines", [[], ["host: a"], ["name: a"], ["name: a", "trial: {}"]])
def test_a_file_with_other_keys_is_refused_in_one_line_that_quotes_none(first_lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("\n".join([*first_lines, *SECRETS]))
    for read in (lambda: load_sweep(path, []), lambda: find_cluster(str(path)), lambda: read_study(path)):
        with pytest.raises(ConfigError, match=r"x\.yaml: has other keys than such a file") as caught:
            read()
        assert "hunter" not in str(caught.value)
        assert "user" not in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


LONG = "hunter22" * 20


@each("text", [
        f"name: a\n{LONG}: 1", f"name: a\n{LONG}: 1\n{LONG}: 2", f"name: *{LONG}", f"name: !{LONG} a",
        f"name: a\ntrial: {{{LONG}: {LONG}}}", f"name: a\ntrial: {LONG}", f"name: {LONG} x\ntrial: {{task: {LONG}}}",
        f"name: a\nspace: {{{LONG}: [1]}}", f"name: a\n? {LONG}\x07{LONG}\n: 1", f"name: a\nseeds: {LONG}",
        f"name: a\ntrial: {{data: {{bundled: {LONG}}}, freeze: {LONG}, model: {LONG}}}", f"name: a\nsearch: {LONG}",
        f"name: a\ntrial: {{task: pos}}\nwatch: {{wandb: {LONG}}}", f"{LONG}", f"- {LONG}", f"name: '{LONG}",
    ])  # fmt: skip
def test_a_sweep_quotes_at_most_40_characters_of_anything(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        expand(*load_sweep(path, []), Lookup(offline=True))
    assert LONG[: MAX_QUOTED + 1] not in str(caught.value)


@each("name", ["sweep", "cluster", "study"])
@each("target", ["pipe", "/dev/zero", "/proc/self/environ"])
def test_a_pipe_or_a_device_is_no_file_of_ours(name: str, target: str, tmp_path: Path) -> None:
    """Reading one would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "x.yaml"
    path.symlink_to(target)
    readers: dict[str, Callable[[], object]] = {
        "sweep": lambda: load_sweep(path, []),
        "cluster": lambda: find_cluster(str(path)),
        "study": lambda: read_study(path),
    }
    with pytest.raises(ConfigError):
        readers[name]()
