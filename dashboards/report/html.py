"""A report as one HTML file that needs no network and whose figures can be zoomed.

Figures are JSON. Plotly's cartesian bundle is embedded compressed (gzip, base64); a figure is drawn when it scrolls into
view.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterator, Sequence

import pandas as pd

from dashboards.data.tables import rows_of
from dashboards.report.forecasts import ABOUT, Forecasts
from dashboards.report.pictures import PLOTLY_JS
from dashboards.report.sections import Section
from dashboards.views.theme import PLOTLY_CONFIG

MAX_ROWS = 400

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, 'Segoe UI', Roboto, sans-serif; color: #1a1b1e; background: #fff; margin: 0 auto;
  max-width: 1100px; padding: 16px; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 48px; border-top: 2px solid #dee2e6; padding-top: 16px; }
.answers li { font-weight: 600; margin: 6px 0; }
.method, footer { color: #495057; font-size: 13px; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 3px 10px; border-bottom: 1px solid #dee2e6; text-align: left; white-space: nowrap; }
.number { text-align: right; } summary { cursor: pointer; padding: 6px 0; } a { color: #1864ab; }
@media print { details { display: none; } figure { break-inside: avoid; } } figure { margin: 0; }
"""
_SCRIPT = """
const config = JSON.parse(document.getElementById('config').textContent);
const draw = (box) => { if (box.dataset.drawn) return; box.dataset.drawn = '1';
  const figure = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  window.Plotly.newPlot(box, figure.data, figure.layout, config); };
const boxes = document.querySelectorAll('[data-figure]');
const watcher = new IntersectionObserver(
  (found) => found.forEach((each) => { if (each.isIntersecting) draw(each.target); }), { rootMargin: '600px' });
const unpacked = async (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text(); };
unpacked('plotly').then((code) => {
  const script = document.createElement('script'); script.textContent = code; document.head.append(script);
  boxes.forEach((box) => watcher.observe(box));
  window.addEventListener('beforeprint', () => boxes.forEach(draw)); });
"""


def as_html(sweep: str, sections: Sequence[Section], forecast: Forecasts | None = None) -> str:
    """The content of the file."""
    name = html.escape(sweep)
    return "".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: report</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body><main><h1>Sweep {name}</h1>",
            *_contents(sections),
            *(text for section in sections for text in _section(section)),
            *_forecast(forecast),
            "</main>",
            f'<script type="application/json" id="config">{_embedded(PLOTLY_CONFIG)}</script>',
            f'<script type="application/octet-stream" id="plotly">{_packed(PLOTLY_JS.read_bytes())}</script>',
            f"<script>{_SCRIPT}</script></body></html>\n",
        ]
    )


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    if len(sections) > 1:
        items = (f'<li><a href="#{s.key}">{html.escape(s.title)}</a></li>' for s in sections)
        yield f'<nav aria-label="Sections"><ul>{"".join(items)}</ul></nav>'


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{section.key}"><h2>{html.escape(section.title)}</h2><h3>Answers</h3><ul class="answers">'
    yield from (f"<li>{html.escape(line)}</li>" for line in section.answers)
    yield "</ul>"
    for part, drawn in section.parts:
        key = f"{section.key}-{part.name}"
        yield f'<figure id="{key}"><h3>{html.escape(part.title)}</h3>'
        yield f"<figcaption>{html.escape(part.caption)}</figcaption>"
        table = _table(drawn.table)
        if drawn.figure is None:
            yield table
        else:
            height = int(drawn.figure["layout"].get("height", 380))
            label = html.escape(f"{part.title}; a table follows", quote=True)
            place = f'data-figure="{key}-data" style="min-height:{height}px"'
            yield f'<div {place} role="group" aria-label="{label}"></div>'
            yield f'<script type="application/json" id="{key}-data">{_embedded(drawn.figure)}</script>'
            yield f"<details><summary>Table</summary>{table}</details>"
        yield f'<p class="method">{html.escape(part.method)}</p></figure>'
    yield "<h3>Method</h3>"
    yield from (f"<p>{html.escape(line)}</p>" for line in section.method)
    if section.empty:
        items = (f"<li>{html.escape(f'{title}: {why}')}</li>" for title, why in section.empty)
        yield f"<details><summary>Figures without data</summary><ul>{''.join(items)}</ul></details>"
    yield f"<footer>{html.escape(section.provenance.line())}</footer></section>"


def _forecast(forecast: Forecasts | None) -> Iterator[str]:
    if forecast is None:
        return
    yield '<section id="forecast"><h2>Forecast and actual cost</h2><ul>'
    yield from (f"<li>{html.escape(line)}</li>" for line in forecast.lines)
    yield f'</ul>{_table(forecast.table)}<p class="method">{html.escape(ABOUT)}</p></section>'


def _table(frame: pd.DataFrame) -> str:
    classes = [' class="number"' if pd.api.types.is_numeric_dtype(frame[name]) else "" for name in frame.columns]
    head = "".join(
        f'<th scope="col"{c}>{html.escape(str(n))}</th>' for n, c in zip(frame.columns, classes, strict=True)
    )
    rows = (
        "".join(f"<td{c}>{html.escape(word)}</td>" for word, c in zip(row, classes, strict=True))
        for row in rows_of(frame.head(MAX_ROWS))
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>The first {MAX_ROWS} of {len(frame):,} rows; the CSV has all.</p>" if len(frame) > MAX_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="table">{table}</div>{more}'


def _embedded(content: object) -> str:
    """JSON that cannot close the script element around it."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _packed(content: bytes) -> str:
    """Compressed and encoded, without a timestamp: the same bytes give the same text."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
