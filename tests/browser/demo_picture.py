"""The pictures of README and docs: two screens of `permafrost demo`, as a browser of 1440 by 740 pixels shows them.

python -m tests.browser.demo_picture --out docs/pages/pictures

Writes `demo.png`, the first page, and `scores.png` into the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from dashboards.app.app import make_app
from dashboards.commands.dashboard import DEMO_PAGE, DEMO_STORE
from dashboards.data.frames import Frames
from orchestrator.store import open_store
from tests.browser.harness import FLAGS, chromium, serving, watching

SIZE = {"width": 1440, "height": 740}
PICTURES = {"demo": "", "scores": "scores"}  # name and path


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    frames = Frames(open_store(str(DEMO_STORE)))
    frames.refresh()
    with serving(make_app(frames)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        with watching(browser, viewport=SIZE, color_scheme="light") as watched:
            for name, path in PICTURES.items():
                page = watched.open(f"{url}{path}?{urlencode(DEMO_PAGE)}")
                page.screenshot(path=args.out / f"{name}.png", animations="disabled")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
