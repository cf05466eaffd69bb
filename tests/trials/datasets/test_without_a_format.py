"""A corpus format is a boundary: without its files, in a copy of the tree, corpora of other formats are read."""

from __future__ import annotations

from pathlib import Path

from tests.builders import write_treebank
from tests.copies import copied, run
from tests.examples import each

TABLES = ("table_reader.py", "table_evidence.py")
WORDS = ("columns_reader.py", "word_columns.py")
RESOLVE = """
from trials.draft import Lookup, TrialDraft
from trials.errors import PermafrostError
for data in ("bank", "tables", "words"):
    try:
        print(TrialDraft.model_validate({"data": data, "max_length": 24}).resolve(Lookup(offline=True)).data.format)
    except PermafrostError as error:
        print(error)
"""


@each("files, lost, unknown", [(TABLES, "tables", "'csv'"), (WORDS, "words", "'columns'")], quick=1)
def test_only_what_needs_a_format_that_is_not_there_is_refused_and_in_one_line(
    files: tuple[str, ...], lost: str, unknown: str, tmp_path: Path
) -> None:
    tree = copied(tmp_path)
    write_treebank(tree / "bank")
    for file in files:
        (tree / "trials" / "datasets" / "formats" / file).unlink()
    for split, word in (("train", "Ice"), ("dev", "Snow")):
        for folder, name in (("tables", f"{split}.csv"), ("words", f"{split}.bio")):
            (tree / folder).mkdir(exist_ok=True)
            content = f'words,upos\n"[""{word}"", ""it""]","[""NOUN"", ""PRON""]"\n' if name.endswith("csv") else ""
            (tree / folder / name).write_text(content or f"{word} NOUN\nit PRON\n\nso ADV\n\n", encoding="utf-8")
    done = run(tree, "-c", RESOLVE)
    assert done.returncode == 0, done.stderr
    treebank, *others = done.stdout.splitlines()
    assert treebank == "conllu"
    assert len(others) == 2
    assert f"unknown {unknown}" in others[("tables", "words").index(lost)]
