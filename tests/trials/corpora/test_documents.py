"""Documents: where each sentence comes from, where files say it, and nothing where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from trials.corpora.corpus import Item, Sentence, document_indices
from trials.corpora.formats.columns_reader import read_columns
from trials.corpora.formats.conllu_reader import read_conllu
from trials.corpora.formats.table_reader import read_csv, read_jsonl
from trials.spec import Columns

_WORD = "1\tword\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def _treebank(path: Path, comments: list[str]) -> tuple[int, ...] | None:
    """The documents of a treebank with a sentence below each comment."""
    path.write_text("".join(f"{comment}\n{_WORD}" if comment else _WORD for comment in comments))
    return document_indices(read_conllu(path, Columns()))


def _ids(path: Path, ids: list[str]) -> tuple[int, ...] | None:
    return _treebank(path, [f"# sent_id = {each}" for each in ids])


@pytest.mark.parametrize(
    ("comments", "documents"),
    [
        (["# newdoc id = a\n# newpar", "# sent_id = 2", "# newdoc", "# newdoc id = a"], (0, 0, 1, 0)),
        (["# sent_id = tut-1", "# newdoc = Wiki", "# sent_id = new-9"], None),  # it begins in the middle of the file
        (["", "# sent_id = a_1", "# sent_id = a_2", "# sent_id = b_1"], None),  # one has no id
        (["# newdoc id = a", "# sent_id = 2"], None),  # one document says nothing of how documents differ
    ],
)
def test_newdoc_begins_a_document(comments: list[str], documents: tuple[int, ...] | None, tmp_path: Path) -> None:
    assert _treebank(tmp_path / "x.conllu", comments) == documents


@pytest.mark.parametrize(
    "ids",
    [
        ["weblog-x.com_a_ENG_2004-0001", "weblog-x.com_a_ENG_2004-0002", "email-b_02-0007", "email-b_02-0008"],
        ["GUM_interview_x-11", "GUM_interview_x-12", "GUM_news_y-1", "GUM_news_y-2"],
        ["ABJ_06_Ugo-Lifestory__1", "ABJ_06_Ugo-Lifestory__2", "JOS_21_Talk-1_DG__1", "JOS_21_Talk-1_DG__2"],
        ["b204.1", "b204.2", "e1039.6", "e1039.7"],  # UD_Finnish-TDT
        ["CF876-1", "CF876-2", "CF877-1", "CF877-3"],  # UD_Portuguese-Bosque, where single sentences are left out
        ["a-c12-p51s1", "a-c12-p51s2", "a-d197-p39s1", "a-d197-p40s1"],  # paragraphs and sentences: Czech, Latvian
        ["H-010\\H-010.p.5.s.4", "H-010\\H-010.p.6.s.1", "H-025\\H-025.p.3.s.1", "H-025\\H-025.p.3.s.2"],  # Alpino
        ["ALTHINGI_BO-33,1.1", "ALTHINGI_BO-33,2.2", "RUV_ESP-2,1.3", "RUV_ESP-2,2.4"],  # UD_Icelandic-Modern
        ["BEJ_01_shelter_001-005", "BEJ_01_shelter_006-014", "BEJ_04_djinn_168-171", "BEJ_04_djinn_172-174"],
        ["c03_006a", "c03_006b", "ns08_002", "ns08_003"],  # UD_Scottish_Gaelic-ARCOSG
    ],
)  # fmt: skip
def test_ids_that_name_a_document_and_count_in_it_say_the_documents(ids: list[str], tmp_path: Path) -> None:
    assert _ids(tmp_path / "x.conllu", ids) == (0, 0, 1, 1)


@pytest.mark.parametrize(
    "ids",
    [
        ["1", "2", "3", "4"],
        ["dev-s1", "dev-s2", "dev-s3", "dev-s4"],
        ["dev-0", "dev-1", "dev2-2", "dev2-3"],  # UD_Danish-DDT
        ["VIT-4001", "VIT-4002", "VIT-4003", "VIT-4004"],
        ["annodis.er_00014", "annodis.er_00022", "frwiki_50.1000_00318", "frwiki_50.1000_00662"],  # UD_French-Sequoia
        ["n01001011", "n01001013", "w01002017", "w01002042"],  # PUD
        ["a1_1", "b2_1", "c3_1", "d4_1"],  # a document a sentence
        ["028g", "0290", "02tf", "03qq"],
        ["a-1", "b-1", "a-2", "b-2"],  # drawn one by one
    ],
)
def test_ids_that_only_count_or_were_drawn_one_by_one_say_none(ids: list[str], tmp_path: Path) -> None:
    assert _ids(tmp_path / "x.conllu", ids) is None


@pytest.mark.parametrize("comment", ["#begin document (bc/{}); part 000", "# doc_id = {}", "# document_id = {}"])
def test_other_comments_that_name_a_document_are_known(comment: str, tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    names = ["a", "a", "b"] if "=" in comment else ["a", "", "b"]  # before each sentence, or where one begins
    path.write_text("".join(f"{comment.format(name)}\nEU O\n\n" if name else "EU O\n\n" for name in names))
    assert document_indices(read_columns(path, Columns())) == (0, 0, 1)


def test_a_document_goes_on_in_the_next_file_by_its_name_only(tmp_path: Path) -> None:
    items: list[Item] = []
    for name in "ab":
        path = tmp_path / name
        path.write_text("-DOCSTART-\n\nEU O\n")
        items += read_columns(path, Columns())
    assert document_indices([*items, Sentence(("EU",), ("O",))]) == (0, 1, 2)  # one that is not known is its own


def test_a_column_of_a_table_names_documents_and_an_empty_cell_none(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,text,label\n7,good,a\n7,bad,b\n,so,a\n,so so,a\n")
    columns = Columns(text="text", label="label", document="id")
    assert document_indices(read_csv(path, columns)) == (0, 0, 1, 2)
    path.write_text('{"t": "good", "l": 1, "d": 7}\n{"t": "bad", "l": 0, "d": null}\n{"t": "so", "l": 0, "d": 7}\n')
    assert document_indices(read_jsonl(path, Columns(text="t", label="l", document="d"))) == (0, 1, 0)
