"""A report in Markdown: the answers, the method and the tables, for a repository or a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dashboards.data.table_files import as_markdown
from dashboards.report.sections import Section, methods
from dashboards.report.summary_page import SummaryPage
from trials.escaping import markdown

MAX_ROWS = 60


def as_text(sweep: str, first: SummaryPage, sections: Sequence[Section]) -> str:
    """The content of the file."""
    parts = (_summary(first), _methods(sections), _lines(sections))
    return "".join([f"# Sweep {markdown(sweep)}\n", *(text for part in parts for text in part)])


def _summary(first: SummaryPage) -> Iterator[str]:
    yield f"\n{markdown(first.question)}\n\n"
    for where, strip, headline, figures in first.cards:
        yield f"- {markdown(where)}: **{strip} {markdown(headline)}**. {markdown(figures)}\n"
    if len(first.table):
        yield f"\n{as_markdown(first.table)}"


def _methods(sections: Sequence[Section]) -> Iterator[str]:
    shared, own = methods(sections)
    yield "\n## Methods\n"
    yield from (f"\n{markdown(line)}\n" for line in shared)
    for section, lines in own:
        yield f"\n### {markdown(section.title)}\n"
        yield from (f"\n{markdown(line)}\n" for line in lines)


def _lines(sections: Sequence[Section]) -> Iterator[str]:
    for section in sections:
        yield f"\n## {markdown(section.title)}\n\n"
        yield from (f"- {markdown(line)}\n" for line in section.answers)
        for part, drawn in section.parts:
            yield f"\n### {markdown(part.title)}\n\n{markdown(part.caption)}\n\n"
            if len(drawn.table) <= MAX_ROWS:
                yield as_markdown(drawn.table)
            else:
                yield f"{len(drawn.table):,} rows: `tables/{section.key}-{part.name}.csv`.\n"
            if drawn.note:
                yield f"\n{markdown(drawn.note)}\n"
            if part.method:
                yield f"\n{markdown(part.method)}\n"
        yield f"\n{markdown(section.provenance.line)}\n"
