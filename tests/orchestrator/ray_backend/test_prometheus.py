"""Labels of metrics as Ray takes them."""

from __future__ import annotations

from orchestrator.ray_backend.prometheus import _in_ascii
from tests.examples import each


@each(
    "value, label",
    [("größe", "gr%C3%B6%C3%9Fe"), ("/a b/'q'/100%", "/a b/'q'/100%"), ("空\n", "%E7%A9%BA%0A"), ("\udcff", "?")],
)
def test_labels_are_ascii(value: str, label: str) -> None:
    assert _in_ascii({"store": value}) == {"store": label}
