"""A picture says where its numbers come from, and is still a picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree

from dashboards.report.pictures import with_source

SOURCE = "sweep a < b & c (config 0123) · last row 2026-11-23"
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert png[at : at + 12 + length] == _chunk(kind, data)
        yield kind, data
        at += 12 + length


def test_an_svg_has_its_source_as_metadata() -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><g/></svg>'
    root = ElementTree.fromstring(with_source(svg, "svg", SOURCE))
    assert [child.text for child in root if child.tag.endswith("metadata")] == [SOURCE]


def test_a_png_has_its_source_as_international_text_after_its_header() -> None:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress(bytes(4)))
    png = SIGNATURE + header + pixels + _chunk(b"IEND", b"")
    found = list(_chunks(with_source(png, "png", SOURCE)))
    assert [kind for kind, _ in found] == [b"IHDR", b"iTXt", b"IDAT", b"IEND"]
    assert found[1][1] == b"Source" + bytes(5) + SOURCE.encode()


def test_a_pdf_stays_as_it_is() -> None:
    assert with_source(b"%PDF-1.7", "pdf", SOURCE) == b"%PDF-1.7"
