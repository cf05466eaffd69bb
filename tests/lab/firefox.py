"""Every page of the dashboard in a Firefox, at two sizes, light and dark, and promises that scripts can check there.

python -m tests.lab.firefox --store results --out pictures [--firefox firefox-esr]

The browser tests drive Chromium. This program drives a Firefox of the distribution by WebDriver BiDi
(https://w3c.github.io/webdriver-bidi), which Firefox speaks itself. It writes a picture per page, size and scheme,
prints what is wrong, and exits with 1 if anything is.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from axe_playwright_python.base import AXE_SCRIPT

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from orchestrator.store import open_store
from tests.browser.every_page import SCHEMES, SIZES, paths
from tests.browser.harness import SETTLED, serving

_SCHEMES = {"light": 1, "dark": 0}  # as the preference has them
_PATIENCE_S = 60
_FAULTS = """async () => {
  const outside = performance.getEntriesByType('resource').map((entry) => entry.name)
    .filter((name) => !name.startsWith(location.origin) && !/^(data|blob):/.test(name)).map((name) => `asks ${name}`);
  const across = document.documentElement.scrollWidth, wide = across > innerWidth ? [`${across} px wide`] : [];
  const found = await axe.run(document, {resultTypes: ['violations'], preload: false});
  const serious = found.violations.filter((rule) => ['serious', 'critical'].includes(rule.impact))
    .map((rule) => `axe: ${rule.id} ${rule.nodes[0].target}`);
  return JSON.stringify([...outside, ...wide, ...serious]);
}"""
# Promises of docs/pages/howto/dashboard.md: the path, what is done there, and what holds then.
_PROMISES = {
    "every completed trial is a dot": (
        "/scores",
        "() => 0",
        """() => new Set([...document.querySelectorAll('[data-part=depth-strip] .js-plotly-plot')]
            .flatMap((plot) => plot._fullData).flatMap((trace) => trace.customdata || []).map((point) => point[0]))
            .size >= 3""",
    ),
    "a deep link restores its controls": (
        "/scores?split=test",
        "() => 0",
        "() => document.querySelector('#control-split').value === 'test'",
    ),
    "the tolerance moves with the keyboard, and the address follows": (
        "/",
        """() => document.querySelector('.tolerance-line')
            .dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true}))""",
        "() => location.search.includes('tolerance=')",
    ),
    "a strip is seen in the grid of trials": (
        "/trials",
        "() => 0",
        "() => document.querySelector('.ag-cell .strip') !== null",
    ),
    "Trials is printed with all rows": (
        "/trials",
        "() => window.dispatchEvent(new Event('beforeprint'))",
        """() => String(document.querySelectorAll('table.on-paper tr').length) ===
            document.querySelector('.ag-root').getAttribute('aria-rowcount')""",
    ),
    "a table opens": (
        "/scores",
        "() => document.querySelector('[data-part=depth-forest] .menu > summary').click()",
        "() => document.querySelectorAll('[data-part=depth-forest] td').length > 0",
    ),
}


class Firefox:
    """A tab of a running Firefox."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection, self._numbers = connection, itertools.count(1)
        self.context = ""
        self.errors: list[str] = []  # of the console, since they were last taken

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a command. Raises RuntimeError."""
        number = next(self._numbers)
        await self._connection.send_json({"id": number, "method": method, "params": params})
        while True:
            answer = await self._connection.receive_json(timeout=_PATIENCE_S)
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self.errors.append(f"console: {answer['params']['text']}")
            if answer.get("id") == number:
                if answer["type"] == "error":
                    raise RuntimeError(f"{method}: {answer['message']}")
                return answer["result"]

    async def evaluate(self, function: str) -> Any:
        """What a function of no arguments returns. Raises RuntimeError."""
        result = await self.call(
            "script.callFunction",
            functionDeclaration=function,
            awaitPromise=True,
            target={"context": self.context},
        )
        if result["type"] == "exception":
            raise RuntimeError(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    async def until(self, function: str) -> bool:
        """Whether a function returned true in time."""
        for _ in range(_PATIENCE_S * 5):
            if await self.evaluate(function) is True:
                return True
            await asyncio.sleep(0.2)
        return False

    async def open(self, url: str) -> bool:
        """Go to an address and wait until all is drawn; whether it was."""
        for address in ("about:blank", url):  # requests of the page before that are on their way fail as it is left
            self.errors.clear()
            await self.call("browsingContext.navigate", context=self.context, url=address, wait="complete")
        if not await self.until(SETTLED):
            return False
        await asyncio.sleep(0.5)  # and this is still so, as the browser tests want it
        return await self.until(SETTLED)


@asynccontextmanager
async def started(program: str, scheme: str) -> AsyncIterator[Firefox]:
    """A Firefox with a profile of its own, in a colour scheme."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as profile:
        wanted = {"layout.css.prefers-color-scheme.content-override": _SCHEMES[scheme], "app.update.auto": False}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in wanted.items()]
        Path(profile, "user.js").write_text("".join(lines), encoding="utf-8")
        words = [program, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", str(port)]
        process = subprocess.Popen([*words, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            async with aiohttp.ClientSession() as session:
                firefox = Firefox(await _connected(session, f"ws://127.0.0.1:{port}/session"))
                await firefox.call("session.new", capabilities={})
                await firefox.call("session.subscribe", events=["log.entryAdded"])
                tree = await firefox.call("browsingContext.getTree")
                firefox.context = tree["contexts"][0]["context"]
                yield firefox
        finally:
            process.terminate()
            process.wait()


async def _connected(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse:
    for _ in range(_PATIENCE_S * 5):
        try:
            return await session.ws_connect(url, max_msg_size=0)
        except aiohttp.ClientError:
            await asyncio.sleep(0.2)
    raise RuntimeError(f"{url}: Firefox does not answer")


async def checked(firefox: Firefox, url: str, shown: list[str], scheme: str, out: Path) -> list[str]:
    """What is wrong with the pages of a dashboard; their pictures are written."""
    faults = []
    for (width, height), path in itertools.product((SIZES[0], SIZES[-1]), shown):
        size = {"width": width, "height": height}
        await firefox.call("browsingContext.setViewport", context=firefox.context, viewport=size)
        found = [] if await firefox.open(url + path) else ["not drawn"]
        taken = await firefox.call("browsingContext.captureScreenshot", context=firefox.context, origin="document")
        name = f"{path.strip('/').partition('/')[0] or 'answer'}-{width}-{scheme}.png"
        (out / name).write_bytes(base64.b64decode(taken["data"]))
        await firefox.evaluate(f"() => {{ {AXE_SCRIPT} }}")
        found += [*json.loads(await firefox.evaluate(_FAULTS)), *firefox.errors]
        faults += [f"{name}: {fault}" for fault in found]
    return faults


async def promised(firefox: Firefox, url: str) -> list[str]:
    """Which promises are not kept."""
    broken = []
    await firefox.call("browsingContext.setViewport", context=firefox.context, viewport={"width": 1440, "height": 900})
    for words, (path, act, holds) in _PROMISES.items():
        await firefox.open(url + path)
        await firefox.evaluate(act)
        kept = await firefox.until(holds)
        sys.stdout.write(f"{'kept' if kept else 'BROKEN'}: {words}\n")
        broken += [] if kept else [words]
    return broken


async def run(args: argparse.Namespace) -> list[str]:
    """All that is wrong."""
    frames = Frames(open_store(args.store))
    shown, faults = list(paths(frames.refresh())), []
    args.out.mkdir(parents=True, exist_ok=True)
    with serving(make_app(frames)) as url:
        for scheme in SCHEMES:
            async with started(args.firefox, scheme) as firefox:
                faults += await checked(firefox, url.rstrip("/"), shown, scheme, args.out)
                if scheme == SCHEMES[0]:
                    faults += await promised(firefox, url.rstrip("/"))
    return faults


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--firefox", default="firefox-esr")
    faults = asyncio.run(run(parser.parse_args(argv)))
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) or "nothing is wrong\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
