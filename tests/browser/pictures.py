"""The pictures of README and docs, of `permafrost demo`: two screens, and every page at three sizes, light and dark.

python -m tests.browser.pictures --out docs/pages/pictures

Writes `demo.png`, the first page, and `scores.png` as a browser of 1440 by 740 pixels shows them, and the contact
sheets `pages-light.jpg` and `pages-dark.jpg`, 3 MB in all: a row a page, a column a size. The browser that takes the
pictures also pastes them, so nothing else is needed.
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

SCREEN = {"width": 1440, "height": 740}
SCREENS = {"demo": "", "scores": "scores"}  # name and path
SIZES = ((2200, 1200), (1440, 900), (390, 844))
_SCREENS_HIGH = 2.5  # of a long page are shown
_WIDTHS = {2200: 700, 1440: 520, 390: 200}  # in the sheet
_QUALITIES = range(80, 10, -10)  # of JPEG, until the sheets are small enough
_MOST_BYTES = 1_500_000  # of a sheet


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    frames = Frames(open_store(str(DEMO_STORE)))
    query = urlencode(DEMO_PAGE)
    shown = [f"{path}{'&' if '?' in path else '?'}{query}" for path in paths(frames.refresh())]
    args.out.mkdir(parents=True, exist_ok=True)
    with serving(make_app(frames)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        with watching(browser, viewport=SCREEN, color_scheme="light") as watched:
            for name, path in SCREENS.items():
                page = watched.open(f"{url}{path}?{query}")
                page.screenshot(path=args.out / f"{name}.png", animations="disabled")
        for scheme in SCHEMES:
            taken = {size: pictures(browser, url.rstrip("/"), shown, size, scheme) for size in SIZES}
            args.out.joinpath(f"pages-{scheme}.jpg").write_bytes(sheet := pasted(browser, taken))
            sys.stdout.write(f"pages-{scheme}.jpg: {len(shown)} pages, {len(sheet) / 1e6:.1f} MB\n")
        browser.close()
    return 0


def pictures(browser: Browser, url: str, shown: list[str], size: tuple[int, int], scheme: str) -> dict[str, bytes]:
    """PNG of each page, from the top, at most `_SCREENS_HIGH` high."""
    width, height = size
    taken = {}
    with watching(browser, viewport={"width": width, "height": height}, color_scheme=scheme) as watched:
        for path in shown:
            page = watched.open(f"{url}{path}")
            long = page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0.0, "y": 0.0, "width": float(width), "height": min(float(long), _SCREENS_HIGH * height)}
            taken[path] = page.screenshot(full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]
    return taken


def pasted(browser: Browser, taken: Mapping[tuple[int, int], Mapping[str, bytes]]) -> bytes:
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
            if len(sheet) <= _MOST_BYTES:
                return sheet
    finally:
        page.close()
    raise ValueError(f"the pictures do not fit into {_MOST_BYTES / 1e6:.1f} MB")


def _image(png: bytes, width: int) -> str:
    return f'<img width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


if __name__ == "__main__":
    raise SystemExit(main())
