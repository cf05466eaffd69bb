"""The report of a sweep: complete, the same bytes for the same store, and only words where data has markup."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, versions_of
from dashboards.report.files import Written, export_figure, write_report
from dashboards.report.pictures import FigureRenderer, find_browser
from dashboards.report.sections import sections
from orchestrator.store import ResultStore
from tests.dashboards.stores import STRATEGIES, Invented, specs, write_store
from tests.examples import each
from trials.errors import ConfigError, MissingError, NothingMatchedError
from trials.spec import TrialSpec

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")


def _score(spec: TrialSpec) -> float:
    return 0.9 - 0.001 * spec.freeze.depth


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    made = Invented(score=_score, noise=0.0005)
    return write_store(tmp_path_factory.mktemp("report") / "store", specs(seeds=range(5)), made)


@pytest.fixture(scope="module")
def frames(store: ResultStore) -> Frames:
    return Frames(store)


@pytest.fixture(scope="module")
def written(frames: Frames, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """All but the pictures, as there is no browser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dashboards.report.pictures.find_browser", lambda: None)
        return write_report(frames, PageQuery(sweep="made-up"), tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def said(written: Written) -> str:
    """The words of the report."""
    return unescape(written.html.read_text(encoding="utf-8"))


def _smallest(folder: Path, invented: Invented | None = None) -> Frames:
    """A store of a baseline and one frozen setting, two seeds each."""
    return Frames(write_store(folder, specs(seeds=(0, 1), train_sizes=(200,), strategies=STRATEGIES[:2]), invented))


def test_the_answers_name_baseline_depth_and_what_it_saves(said: str) -> None:
    assert re.search(r"Train size 800: without freezing, dev accuracy is \d\d\.\d\d % \(95 % .*\), n=5\.", said)
    assert re.search(r"tolerance 1 point: Freeze \w+", said)
    assert re.search(
        r"It saves \d+\.\d % of the training FLOPs, \d+\.\d % of the trainable parameters, "
        r"\d+\.\d % of the training time \(\d+\.\d to \d+\.\d\)",
        said,
    )


def test_the_method_tells_what_somebody_needs_to_do_it_again(said: str) -> None:
    for words in (
        "50 trials (50 completed)", "seed 0, 1, 2, 3, 4", "200, 800", "learning rate 5e-05", "batches of 16",
        "torch 2.13.0", "commit 0000", "configuration digest", "two-way", "files' digest dddddddddddd",
    ):  # fmt: skip
        assert words in said.partition("<h2>Methods")[2]


def test_the_html_is_one_file_below_two_megabytes_that_asks_no_network(written: Written) -> None:
    text = written.html.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", text)


def test_every_figure_of_the_html_is_json_that_plotly_takes(written: Written) -> None:
    text = written.html.read_text(encoding="utf-8")
    figures = re.findall(r'<script type="application/json" id="s1-([\w-]+)-data">(.*?)</script>', text)
    assert {"answer-losses", "depth-strip", "curves-quality", "cost-savings"} <= {name for name, _ in figures}
    assert all(set(json.loads(content)) == {"data", "layout"} for _, content in figures)


def test_the_same_store_gives_the_same_bytes(store: ResultStore, written: Written, tmp_path: Path) -> None:
    again = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path, pictures=False)
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in written.files]


def test_tables_come_as_csv_and_latex_with_their_source(written: Written) -> None:
    names = {path.name for path in written.files}
    assert {"s1-depth-table.csv", "s1-depth-table.tex", "s1-depth-forest.csv"} <= names
    tex = next(path for path in written.files if path.name == "s1-depth-table.tex").read_text(encoding="utf-8")
    assert tex.startswith("% sweep made-up (config ")
    assert "\\toprule" in tex


def test_a_hostile_name_stays_a_name_in_every_file(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    trials = specs(
        seeds=(0, 1, 2), train_sizes=(200,), strategies=STRATEGIES[:2], data={"name": name}, model={"name": name}
    )
    store = write_store(tmp_path / "store", trials)
    found = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path / "out", pictures=False)
    assert "<script>alert" not in found.html.read_text(encoding="utf-8")


@pytest.mark.parametrize("states", [{0: "failed", 1: None}, {0: "completed", 1: "diverged"}])
def test_a_sweep_without_means_still_has_a_report(tmp_path: Path, states: dict[int, str | None]) -> None:
    frames = _smallest(tmp_path / "store", Invented(state=lambda spec: states[spec.seed]))
    written = write_report(frames, PageQuery(sweep="made-up"), tmp_path / "r", pictures=False)
    assert written.html.read_text(encoding="utf-8").count("<h2>Methods</h2>") == 1


def test_a_sweep_that_is_not_there_is_told_with_those_that_are(frames: Frames) -> None:
    with pytest.raises(NothingMatchedError, match=r"no sweep 'gone'.*made-up"):
        sections(frames.refresh(), PageQuery(sweep="gone"), versions_of(frames.store))


def test_without_a_browser_all_but_the_pictures_is_written(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Chromium" in written.no_pictures
    assert written.html.exists()
    monkeypatch.setattr("dashboards.report.pictures.find_browser", lambda: None)
    with pytest.raises(MissingError, match="PERMAFROST_CHROMIUM"):
        FigureRenderer()


@each("ending", ["csv", "md", "tex", "json"])
def test_a_figure_is_exported_as_the_page_of_its_address_shows_it(frames: Frames, tmp_path: Path, ending: str) -> None:
    for name, url in (("all", ""), ("some", "http://127.0.0.1:8050/scores?size=800&strategy=first_k")):
        export_figure(frames, "depth-strip", url, tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"some.{ending}").stat().st_size < (tmp_path / f"all.{ending}").stat().st_size


@each(
    "name, file, error, words",
    [
        ("depth", "x.csv", ConfigError, "no such figure. Known: answer-losses"),
        ("depth-strip", "x.exe", ConfigError, "the extension must be one of"),
        ("depth-table", "x.svg", ConfigError, "is a table"),
        ("overview-failures", "x.csv", NothingMatchedError, "No trial failed"),
    ],
)
def test_what_cannot_be_exported_is_told(
    frames: Frames, tmp_path: Path, name: str, file: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        export_figure(frames, name, "", tmp_path / file)


@needs_browser
@pytest.mark.slow
def test_a_picture_is_drawn_and_the_same_figure_gives_the_same_svg(store: ResultStore, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg", "one.pdf", "one.png"):
        export_figure(Frames(store), "depth-strip", "", tmp_path / name)
    svg = (tmp_path / "one.svg").read_bytes()
    assert svg == (tmp_path / "two.svg").read_bytes()
    assert svg.startswith(b"<svg")
    assert b"200 for training, n=5" in svg
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
