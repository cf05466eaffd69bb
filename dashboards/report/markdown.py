"""A report as Markdown: the answers, the method and the tables, for a repository or a message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dashboards.data.tables import as_markdown
from dashboards.report.forecasts import ABOUT, Forecasts
from dashboards.report.sections import Section

MAX_ROWS = 60
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def as_text(sweep: str, sections: Sequence[Section], forecast: Forecasts | None = None) -> str:
    """The content of the file."""
    return "".join([*_lines(sweep, sections), *_forecast(forecast)])


def _forecast(forecast: Forecasts | None) -> Iterator[str]:
    if forecast is None:
        return
    yield "\n## Forecast and actual cost\n\n"
    yield from (f"- {_plain(line)}\n" for line in forecast.lines)
    yield f"\n{_plain(ABOUT)}\n\n"
    if len(forecast.table) <= MAX_ROWS:
        yield as_markdown(forecast.table)
    else:
        yield f"{len(forecast.table):,} rows: `tables/forecast.csv`.\n"


def _lines(sweep: str, sections: Sequence[Section]) -> Iterator[str]:
    yield f"# Sweep {_plain(sweep)}\n"
    for section in sections:
        yield f"\n## {_plain(section.title)}\n\n"
        yield from (f"- {_plain(line)}\n" for line in section.answers)
        for part, drawn in section.parts:
            yield f"\n### {_plain(part.title)}\n\n{_plain(part.caption)}\n\n"
            if len(drawn.table) <= MAX_ROWS:
                yield as_markdown(drawn.table)
            else:
                yield f"{len(drawn.table):,} rows: `tables/{section.key}-{part.name}.csv`.\n"
            if part.method:
                yield f"\n{_plain(part.method)}\n"
        yield "\n### Method\n\n"
        yield from (f"{_plain(line)}\n\n" for line in section.method)
        yield f"{_plain(section.provenance.line())}\n"


def _plain(words: str) -> str:
    """Text escaped for Markdown."""
    return _SPECIAL.sub(r"\\\1", words)
