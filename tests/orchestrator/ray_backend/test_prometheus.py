"""Labels of metrics as Ray takes them."""

from __future__ import annotations

from orchestrator.ray_backend.prometheus import _in_ascii


def test_labels_are_ascii() -> None:
    labels = {"größe": "gr%C3%B6%C3%9Fe", "/a b/'q'/100%": "/a b/'q'/100%", "空\n": "%E7%A9%BA%0A", "\udcff": "?"}
    assert {value: _in_ascii({"store": value})["store"] for value in labels} == labels
