"""A report as one HTML file that needs no network and whose figures can be zoomed: a section a corpus, then methods.

Figures are JSON. Plotly's cartesian bundle is embedded compressed (gzip, base64); a figure is drawn when it scrolls
into view.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dashboards.data.tables import rows_of
from dashboards.report.pictures import PLOTLY_JS
from dashboards.report.sections import Section, methods
from dashboards.views.kit.drawing import PLOTLY_CONFIG, Figure, dark_colours
from dashboards.views.kit.part import Drawn, Part
from orchestrator.analysis.freeze_names import FreezeName
from trials.escaping import html

MAX_ROWS = 400  # of a table in the file; the CSV beside it has all

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1b1e; --pale: #495057; --paper: #fff; --rule: #dee2e6; --link: #1864ab; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e9ecef; --pale: #b4bac1; --paper: #242424; --rule: #3a3d42; --link: #74c0fc; } }
body { font: 15px/1.5 system-ui, 'Segoe UI', Roboto, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 1100px; padding: 16px; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 48px; border-top: 2px solid var(--rule); padding-top: 16px; }
.question { font-size: 18px; } .strip { font-family: ui-monospace, monospace; font-weight: 400; letter-spacing: 1px;
  white-space: nowrap; }
.answers li { font-weight: 600; margin: 6px 0; }
.method, footer { color: var(--pale); font-size: 13px; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 3px 10px; border-bottom: 1px solid var(--rule); text-align: left; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; } figure { margin: 0; }
.number { text-align: right; } summary { cursor: pointer; padding: 6px 0; } a { color: var(--link); }
@page { size: A4; margin: 14mm; }
@media print {
  body { max-width: none; margin: 0; padding: 0; font-size: 10.5pt; } details, nav { display: none; }
  [data-figure] { min-height: 0 !important; zoom: 0.72; }
  [data-figure], tr, h2, h3, figure:has([data-figure]) { break-inside: avoid; }
  h1, h2, h3, figcaption { break-after: avoid; } h2 { margin-top: 18px; padding-top: 6px; } h3 { margin: 10px 0 2px; }
  section { break-before: auto; } #methods { break-before: page; } .wide { overflow: visible; }
  p { margin: 4px 0; }
  .method, footer { font-size: 8pt; line-height: 1.3; } .again { display: none; }
  table { font-size: 6.5pt; width: 100%; }
  th, td { padding: 1px 3px; white-space: normal; overflow-wrap: break-word; }
}
"""
_SCRIPT = """
const read = (id) => document.getElementById(id).textContent;
const config = JSON.parse(read('config')), inDark = JSON.parse(read('colours'));
const dark = window.matchMedia('(prefers-color-scheme: dark)');
let printing = false; // paper is white; the style scales a figure to A4 within its margins, as it is on a screen
const painted = (text) => printing || !dark.matches ? text
  : text.replace(/#[0-9A-F]{6}|rgba[(][0-9]+,[0-9]+,[0-9]+/gi, (colour) => inDark[colour] || colour);
const draw = (box) => { box.dataset.drawn = '1';
  const figure = JSON.parse(painted(read(box.dataset.figure)));
  if (printing) Object.assign(figure.layout, { width: 940, height: Math.min(figure.layout.height, 1340) });
  window.Plotly.react(box, figure.data, figure.layout, config); };
const boxes = Array.from(document.querySelectorAll('[data-figure]'));
const again = () => boxes.filter((box) => box.dataset.drawn).forEach(draw);
const watcher = new IntersectionObserver(
  (found) => found.forEach((each) => { if (each.isIntersecting && !each.target.dataset.drawn) draw(each.target); }),
  { rootMargin: '600px' });
const unpacked = async (id) => {
  const packed = Uint8Array.from(atob(read(id)), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text(); };
unpacked('plotly').then((code) => {
  const script = document.createElement('script'); script.textContent = code; document.head.append(script);
  boxes.forEach((box) => watcher.observe(box));
  dark.addEventListener('change', again);
  window.addEventListener('beforeprint', () => { printing = true; boxes.forEach(draw); });
  window.addEventListener('afterprint', () => { printing = false; again(); }); });
"""


def as_html(sweep: str, sections: Sequence[Section]) -> str:
    """The content of the file."""
    body = [
        f"<h1>Sweep {html(sweep)}</h1>",
        *_contents(sections),
        *(text for n, section in enumerate(sections) for text in _section(section, again=n > 0)),
        *_methods(sections),
        *_appendix(sections),
    ]
    return document(f"{sweep}: report", body)


def document(title: str, body: Iterable[str]) -> str:
    """A page with its style, and what draws the figures of `drawing` in it."""
    return "".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body><main>",
            *body,
            "</main>",
            f'<script type="application/json" id="config">{_embed(PLOTLY_CONFIG)}</script>',
            f'<script type="application/json" id="colours">{_embed(dark_colours())}</script>',
            f'<script type="application/octet-stream" id="plotly">{_pack(PLOTLY_JS)}</script>',
            f"<script>{_SCRIPT}</script></body></html>\n",
        ]
    )


def page_as_html(
    title: str, question: str, answers: Sequence[str], parts: Sequence[tuple[Part[Any], Drawn]], source: str
) -> str:
    """One page of the dashboard as a file of its own."""
    lines = "".join(f"<li>{html(line)}</li>" for line in answers)
    body = [
        f'<h1>{html(title)}</h1><p class="question">{html(question)}</p>',
        f'<ul class="answers">{lines}</ul>' if answers else "",
        *(text for part, drawn in parts for text in _part(part.name, part, drawn)),
        f"<footer>{html(source)}</footer>",
    ]
    return document(f"Permafrost: {title}", body)


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    named = [*((s.key, s.title) for s in sections), ("methods", "Methods"), ("appendix", "Appendix")]
    items = (f'<li><a href="#{key}">{html(title)}</a></li>' for key, title in named)
    yield f'<nav aria-label="Sections"><ul>{"".join(items)}</ul></nav>'


def _methods(sections: Sequence[Section]) -> Iterator[str]:
    """The methods that all sections share, then those that only one section uses."""
    shared, own = methods(sections)
    yield '<section id="methods"><h2>Methods</h2>'
    yield from (f"<p>{html(line)}</p>" for line in shared)
    for section, lines in own:
        yield f"<h3>{html(section.title)}</h3>"
        yield from (f"<p>{html(line)}</p>" for line in lines)
    yield "</section>"


def _section(section: Section, *, again: bool) -> Iterator[str]:
    yield f'<section id="{section.key}"><h2>{html(section.title)}</h2><h3>Answers</h3><ul class="answers">'
    yield from (f"<li>{html(line)}</li>" for line in section.answers)
    yield "</ul>"
    first = [pair for pair in section.parts if not pair[0].detail]
    for part, drawn in first:
        yield from _part(f"{section.key}-{part.name}", part, drawn, again=again)
    more = [pair for pair in section.parts if pair[0].detail]
    if more:  # on demand, and not on paper: their files are in the folder of the report
        yield "<details><summary>Further figures and tables</summary>"
        for part, drawn in more:
            yield from _part(f"{section.key}-{part.name}", part, drawn)
        yield "</details>"
    yield f"<footer>{html(section.provenance.line)}</footer></section>"


def _part(key: str, part: Part[Any], drawn: Drawn, *, again: bool = False) -> Iterator[str]:
    """A figure with its table, or why there is none; `key` is unique in the document.

    On paper its method stands once: not where it comes `again`.
    """
    yield f'<figure id="{key}"><h3>{html(part.title)}</h3>'
    yield f"<figcaption>{html(part.caption)}</figcaption>"
    table = as_table(drawn.table) + (f"<p>{html(drawn.note)}</p>" if drawn.note else "")
    if drawn.why_empty:
        yield f"<p>{html(drawn.why_empty)}</p>"
    elif drawn.figure is None:
        yield table
    else:
        yield drawing(key, part.title, drawn.figure)
        yield f"<details><summary>Table</summary>{table}</details>"
    yield f'<p class="method{" again" if again else ""}">{html(part.method)}</p></figure>'


def _appendix(sections: Sequence[Section]) -> Iterator[str]:
    """Which figures have nothing to show."""
    empty: dict[tuple[str, str], list[str]] = {}
    for section in sections:
        for missing in section.empty:
            empty.setdefault(missing, []).append(section.title)
    if empty:
        lines = (
            f"{title}: {why}" if len(titles) == len(sections) else f"{title} ({'; '.join(titles)}): {why}"
            for (title, why), titles in empty.items()
        )
        items = (f"<li>{html(line)}</li>" for line in lines)
        yield f'<h3>Figures without data</h3><ul class="method">{"".join(items)}</ul>'
    yield "</section>"


def drawing(key: str, title: str, figure: Figure) -> str:
    """The place of a figure and its data; `key` is unique in the document."""
    height = int(figure["layout"].get("height", 380))
    label = html(f"{title}; a table follows")
    place = f'data-figure="{key}-data" style="min-height:{height}px"'
    data = f'<script type="application/json" id="{key}-data">{_embed(figure)}</script>'
    return f'<div {place} role="group" aria-label="{label}"></div>{data}'


def as_table(frame: pd.DataFrame) -> str:
    """The first rows of a frame with any columns as an HTML table; columns of numbers are aligned to the right."""
    classes = [' class="number"' if pd.api.types.is_numeric_dtype(frame[name]) else "" for name in frame.columns]
    head = "".join(f'<th scope="col"{c}>{html(str(n))}</th>' for n, c in zip(frame.columns, classes, strict=True))
    rows = (
        "".join(f"<td{c}>{_cell(word)}</td>" for word, c in zip(row, classes, strict=True))
        for row in rows_of(frame.head(MAX_ROWS))
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>The first {MAX_ROWS} of {len(frame):,} rows; the CSV has all.</p>" if len(frame) > MAX_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="table">{table}</div>{more}'


def _cell(word: str) -> str:
    """A cell's content: a layer strip is squares for the eye and words for the ear, before its name."""
    if not isinstance(word, FreezeName) or not word.squares:
        return html(word)
    return f'<span class="strip" role="img" aria-label="{html(word.heard)}">{word.squares}</span> {html(word)}'


def _embed(content: object) -> str:
    """JSON that cannot close the script element around it."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@functools.cache
def _pack(path: Path) -> str:
    """A file compressed and encoded, without a timestamp: the same bytes give the same text."""
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()
