"""Time the dashboard over stores of 100,000 and 1,000,000 evaluations, as a person at a browser meets it.

python -m tests.lab.benchmarks.dashboard [--rows 100000 1000000] [--out tests/lab/benchmarks/dashboard.json]

The dashboard runs as users start it, in a process of its own; a headless Chromium on the same machine looks at it. It
wants an idle machine with two cores and takes some ten minutes. What is measured, in milliseconds:

- *cold paint*: a new browser without a cache opens a server that has just begun to listen, until the first figure of
  the page is drawn with all its marks; *warm paint*: the same browser opens the page again.
- *filter*: from the click on a control's option until the view's first figure is redrawn, and until all of them are;
  the median of 20. *dots* is Scores with a dot a trial, at most 5,000 of them; *aggregated* is Training.
- *new row*: from the commit of a trial to its dot.
- *idle*: drawings within ten seconds in which nothing happens.
- *memory*: of the server after all that, beyond that of the same server over an empty store, in MB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from orchestrator.store import open_store
from tests.browser.harness import FLAGS, chromium, wait_until_drawn
from tests.dashboards import stores

EVALUATIONS, SEEDS, TIMES = 50, 20, 20
LIMITS = {
    100_000: {"aggregated": 150, "dots": 350},
    1_000_000: {
        "aggregated": 200,
        "dots": 350,
        "cold_paint": 3000,
        "warm_paint": 1300,
        "new_row": 4000,
        "memory_mb": 400,
    },
}
# When a control's option is clicked, and when each figure was drawn last.
_WATCH = """() => {
    window.drawnAt = new Map(); window.clickedAt = 0; window.drawings = 0;
    document.addEventListener('click', () => { window.clickedAt = performance.now(); }, true);
    document.querySelectorAll('.js-plotly-plot').forEach((plot, n) => plot.on('plotly_afterplot', () => {
        window.drawings += 1; window.drawnAt.set(n, performance.now()); }));
}"""
# The page does not show what it tolerates, but another tolerance is another address.
_NEVER_SEEN = """(tolerance) => {
    const address = new URL(window.location); address.searchParams.set('tolerance', tolerance);
    window.history.replaceState(null, '', address.href.replaceAll('%2C', ','));
    window.dispatchEvent(new PopStateEvent('popstate')); }"""
_ALL_DRAWN = """() => { const n = document.querySelectorAll('.js-plotly-plot').length;
    return [...Array(n).keys()].every((k) => (window.drawnAt.get(k) || 0) > window.clickedAt); }"""
_SPANS = """() => { const at = [...window.drawnAt.entries()].sort((a, b) => a[0] - b[0]).map((each) => each[1]);
    return [at[0] - window.clickedAt, Math.max(...at) - window.clickedAt]; }"""
_PAINTED = """() => { const plot = document.querySelector('.js-plotly-plot');
    return Boolean(plot && plot._fullData && plot.querySelector('.points path, .heatmaplayer image, .bars path')); }"""


def main(argv: list[str] | None = None) -> int:
    """The command line. Exit code 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=sorted(LIMITS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "dashboard.json")
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="bench-dashboard-"))
    try:
        found: dict[str, Any] = {
            "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        }
        base_mb = _base_mb(folder / "empty")
        for rows in args.rows:
            found[str(rows)] = measure(folder / str(rows), rows, base_mb)
            sys.stdout.write(json.dumps({rows: found[str(rows)]}) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    missed = [f"{rows}: {name} {found[str(rows)][name]} > {most}" for rows in args.rows if rows in LIMITS
              for name, most in LIMITS[rows].items() if found[str(rows)][name] > most]  # fmt: skip
    sys.stdout.write("".join(f"missed: {line}\n" for line in missed))
    return int(bool(missed))


def measure(folder: Path, rows: int, base_mb: float) -> dict[str, Any]:
    """All figures of a store of so many evaluations."""
    trials = rows // EVALUATIONS
    stores.main([str(folder), "--trials", str(trials), "--evaluations", str(EVALUATIONS), "--seeds", str(SEEDS)])
    found: dict[str, Any] = {"trials": trials}
    with _server(folder) as (url, process, listening_s), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        found["listening_after_s"] = round(listening_s, 2)
        found |= _paints(browser, f"{url}scores")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        sizes = ",".join(str(200 * (n + 1)) for n in range(min(49, trials // (SEEDS * 5))))
        found |= _named("dots", _filter(page, f"{url}scores?size={sizes}"))
        found |= _named("aggregated", _filter(page, f"{url}training"))
        found["new_row"] = _new_row(page, f"{url}scores?size={sizes}", folder)
        page.wait_for_timeout(3000)
        page.evaluate(_WATCH)
        page.wait_for_timeout(10_000)
        found["idle_drawings"] = page.evaluate("window.drawings")
        found["memory_mb"] = round(process.memory_info().rss / 1e6 - base_mb, 1)
        browser.close()
    return found


def _named(name: str, spans: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians; the first figure is what a person looks at, the others stand below it."""
    first, last = zip(*spans, strict=True)
    return {
        name: round(statistics.median(first)),
        f"{name}_all_figures": round(statistics.median(last)),
        f"{name}_least_most": [round(min(first)), round(max(first))],
    }


def _paints(browser: Browser, url: str) -> dict[str, int]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    spans = []
    for _ in range(4):
        page = context.new_page()
        began = time.perf_counter()
        page.goto(url)
        _until(page, _PAINTED)
        spans.append(1000 * (time.perf_counter() - began))
        wait_until_drawn(page)
        page.close()
    context.close()
    return {"cold_paint": round(spans[0]), "warm_paint": round(statistics.median(spans[1:]))}


def _filter(page: Page, url: str) -> list[tuple[float, float]]:
    """Dev to test and back: another value of everything that is drawn, and of an address that was never asked for, so
    that nothing which the server keeps can answer.
    """
    page.goto(url)
    wait_until_drawn(page)
    page.evaluate(_WATCH)
    spans = []
    for n in range(TIMES):
        page.evaluate(_NEVER_SEEN, 5 + n / 100)
        page.wait_for_timeout(100)
        wait_until_drawn(page)
        page.locator("#control-split").click()
        option = page.get_by_role("option", name=("test", "dev")[n % 2], exact=True)
        option.wait_for()
        page.wait_for_timeout(250)  # the list's own animation
        option.click()
        _until(page, _ALL_DRAWN)
        wait_until_drawn(page)
        spans.append(tuple(page.evaluate(_SPANS)))
    return spans


def _until(page: Page, function: str) -> None:
    """Look every few milliseconds. Playwright's own waiting does not outlive a navigation under a strict policy."""
    began = time.perf_counter()
    while not page.evaluate(function):
        assert time.perf_counter() - began < 60, "nothing was drawn"
        time.sleep(0.005)


def _new_row(page: Page, url: str, folder: Path) -> int:
    """A trial of a seed that no other has is committed; its dot is waited for."""
    page.goto(url)
    wait_until_drawn(page)
    spec = stores.specs(seeds=(10_000,), train_sizes=(200,))[:1]
    store = open_store(folder)
    began = time.perf_counter()
    store.add_plan(_with(store.sweeps()[0], spec[0]))
    stores.append(store, spec, stores.Invented(evaluations=EVALUATIONS))
    committed = time.perf_counter()
    page.wait_for_function(
        "(id) => [...document.querySelectorAll('.js-plotly-plot')].some((plot) => (plot._fullData || []).some("
        "(trace) => (trace.customdata || []).some((point) => point[0] === id)))",
        arg=spec[0].trial_id,
    )
    assert committed >= began
    return round(1000 * (time.perf_counter() - committed))


def _with(plan: Any, spec: Any) -> Any:
    from dataclasses import replace

    return replace(plan, time=plan.time + 1, trials=(*plan.trials, (spec.trial_id, spec.model_dump(mode="json"))))


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, psutil.Process, float]]:
    began = time.perf_counter()
    words = [str(Path(sys.executable).parent / "permafrost"), "dashboard", str(folder), "--port", "0", "--no-token"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = next(match for line in server.stderr if (match := re.search(r"http://\S+/", line)))
        try:
            yield found[0], psutil.Process(server.pid), time.perf_counter() - began
        finally:
            server.terminate()


def _base_mb(folder: Path) -> float:
    """Of a server over a store that holds nothing, after its first page."""
    open_store(folder, must_exist=False).create()
    with _server(folder) as (url, process, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = browser.new_page()
        page.goto(f"{url}scores")
        wait_until_drawn(page)
        browser.close()
        return float(process.memory_info().rss / 1e6)


if __name__ == "__main__":
    raise SystemExit(main())
