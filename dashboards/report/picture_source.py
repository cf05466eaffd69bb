"""Where the numbers of a picture come from, inside its file: as metadata of an SVG, as a text chunk of a PNG."""

from __future__ import annotations

import re
import struct
import zlib
from xml.sax.saxutils import escape

_SVG_START = re.compile(rb"<svg\b[^>]*>")
_HEADER_END = 33  # of a PNG: 8 bytes of signature and the chunk IHDR
KEYWORD = b"Source"


def with_source(picture: bytes, kind: str, source: str) -> bytes:
    """The picture with `source` inside; a PDF stays as it is.

    See the PNG specification (third edition), 11.3.3.4, for chunks of international text.
    """
    if kind == "svg":
        found = _SVG_START.search(picture)
        at = 0 if found is None else found.end()
        return picture[:at] + f"<metadata>{escape(source)}</metadata>".encode() + picture[at:]
    if kind == "png":
        body = b"iTXt" + KEYWORD + bytes(5) + source.encode()
        chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        return picture[:_HEADER_END] + chunk + picture[_HEADER_END:]
    return picture
