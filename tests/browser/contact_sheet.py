"""A contact sheet: every page of the dashboard at three sizes, light and dark, in a few pictures of 3 MB in all.

python -m tests.browser.contact_sheet --out sheets [--store results --page 'sweep=starter'] [--most-mb 3]

The pages are those that users get, of the demo or of another store. The browser that takes the pictures also pastes
them, so nothing else is needed. Writes `pages-light.jpg` and `pages-dark.jpg` into the folder: a row a page, a column
a size.
"""

from __future__ import annotations

import argparse
import base64
import html
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

from dashboards.app.app import make_app
from dashboards.commands.dashboard import DEMO_PAGE, DEMO_STORE
from dashboards.data.frames import Frames
from orchestrator.store import open_store
from tests.browser.every_page import SCHEMES, paths
from tests.browser.harness import FLAGS, chromium, serving, watching

_SCREENS = 2.5  # of a long page are shown
SIZES = ((2200, 1200), (1440, 900), (390, 844))
_WIDTHS = {2200: 700, 1440: 520, 390: 200}  # in the sheet
_QUALITIES = range(80, 10, -10)  # of JPEG, until the sheets are small enough


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=str(DEMO_STORE))
    parser.add_argument("--page", default=urlencode(DEMO_PAGE), help="the query of all pages")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most-mb", type=float, default=3.0)
    args = parser.parse_args(argv)
    frames = Frames(open_store(args.store))
    shown = [f"{path}{'&' if '?' in path else '?'}{args.page}" for path in paths(frames.refresh())]
    args.out.mkdir(parents=True, exist_ok=True)
    with serving(make_app(frames)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for scheme in SCHEMES:
            taken = {size: pictures(browser, url.rstrip("/"), shown, size, scheme) for size in SIZES}
            sheet = pasted(browser, taken, most_bytes=int(1e6 * args.most_mb / len(SCHEMES)))
            args.out.joinpath(f"pages-{scheme}.jpg").write_bytes(sheet)
            sys.stdout.write(f"pages-{scheme}.jpg: {len(shown)} pages, {len(sheet) / 1e6:.1f} MB\n")
        browser.close()
    return 0


def pictures(browser: Browser, url: str, shown: list[str], size: tuple[int, int], scheme: str) -> dict[str, bytes]:
    """PNG of each page, from the top, at most `_SCREENS` high."""
    width, height = size
    taken = {}
    with watching(browser, viewport={"width": width, "height": height}, color_scheme=scheme) as watched:
        for path in shown:
            page = watched.open(f"{url}{path}")
            long = page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0.0, "y": 0.0, "width": float(width), "height": min(float(long), _SCREENS * height)}
            taken[path] = page.screenshot(full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]
    return taken


def pasted(browser: Browser, taken: Mapping[tuple[int, int], Mapping[str, bytes]], *, most_bytes: int) -> bytes:
    """One JPEG of all pictures, of the best quality that fits.

    Raises:
        ValueError: None fits.
    """
    sizes = list(taken)
    head = "".join(f"<th>{width} x {height}</th>" for width, height in sizes)
    rows = "".join(
        f"<tr><td>{html.escape(path.partition('?')[0][:9])}</td>"
        + "".join(f"<td>{_image(taken[size][path], _WIDTHS[size[0]])}</td>" for size in sizes)
        + "</tr>"
        for path in taken[sizes[0]]
    )
    style = "body{margin:8px;font:14px sans-serif;background:#888}td{vertical-align:top;padding:4px}th{text-align:left}"
    page = browser.new_page(viewport={"width": 1500, "height": 900})
    page.set_content(f"<style>{style}</style><table><tr><th></th>{head}</tr>{rows}</table>")
    try:
        for quality in _QUALITIES:
            sheet = page.screenshot(full_page=True, type="jpeg", quality=quality)
            if len(sheet) <= most_bytes:
                return sheet
    finally:
        page.close()
    raise ValueError(f"the pictures do not fit into {most_bytes / 1e6:.1f} MB")


def _image(png: bytes, width: int) -> str:
    return f'<img width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


if __name__ == "__main__":
    raise SystemExit(main())
