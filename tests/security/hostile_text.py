"""Texts that act where they are shown unescaped."""

from __future__ import annotations

import unicodedata

HOSTILE = (
    "\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "a\nb", "a\r\nb", "\rover", "\x00", "\x7f", "\u202eevil", "\u2066x",
    "\u2028", "\ufeff", "=cmd|' /C calc'!A0", "+1+cmd()", "-2+3", "@SUM(1)", "\t=1", "100 %", "\\input{/etc/passwd}",
    "\\write18{id}", "$x$", "a_b^c~d#e&f{g}", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[red]",
    "[/]", "[bold", ":smile:", "[a](javascript:alert(1))", "`id`", "| x |", "%{x}", "{0}", "../../etc/passwd",
    "${HOME}", "x" * 300,
)  # fmt: skip
_JOINERS = "\u200c\u200d"  # letters of some languages need them


def has_control_character(text: str) -> bool:
    """Whether a character moves a cursor, ends a line or reorders its neighbours."""
    return any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in _JOINERS for c in text)
