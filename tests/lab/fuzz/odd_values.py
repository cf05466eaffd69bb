"""What people, programs and attackers write where a value belongs, as YAML."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any


class Raw(str):
    """YAML that is written as it stands."""

    __slots__ = ()


def _nested(depth: int, start: str, end: str) -> Raw:
    return Raw(start * depth + end * depth)


NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 7, 100, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 0.0, -0.5, 0.1, 1.0, 1.5,
    *map(Raw, ("1e-3", "1.0e+308", "-1.7e+308", "1.0e+30", "5.0e-324", "1e999", ".nan", ".inf", "-.inf", "-0.0", "+1")),
    *map(Raw, ("0x" + "f" * 20, "0x" + "f" * 5000, "9" * 400, "9" * 5000, "0b1", "0o17", "017", "1_000", "1_0.0_1")),
    *map(Raw, ("190:20:30", "9:" * 20 + "9", "9:" * 300 + "9.5", "1:2:3.5")),
)  # fmt: skip

WORDS: tuple[Any, ...] = (
    "", " ", "none", "null", "true", "starter", "first_k", "frist_k", "layers", "pos", "ner", "accuracy", "fp16",
    "bf16", "random", "grid", "packed", "auto", "all", "absent", ".", "..", "/", "//", "~", "~nobody-here",
    "~nobody-here/x", "../../../etc/passwd", "/etc/passwd", "/dev/null", "/dev/zero", "/proc/self/mem",
    "file:///etc/passwd", "a" * 300, "a/" * 3000, "x" * 5000, "UD_English-EWT-sample", "UD_English-EWT",
    "nyu-mll/glue", "2.16", "http://[::1", "http://u:pw@h:x", "http://a b", "http://h:99999", "ray://h:1", "s3://",
    "gs://h:x/a", "s3://b/../c", "gs://[", "https://\u2100.com", "é", "e\u0301", "日本語", "😀", "\u202eabc",
    "\ufeffa", "\u0000", "a\u0000b",
    "\u001b[31mred\u001b[0m", "\x7f", "\x85", "\u2028", "\t", "\n", "a\nTraceback (most recent call last):", "%s%n",
    "{0}", "${HOME}", "$(id)", "`id`", "; id", "'", '"', "\\", "a.b", Raw('"\\ud800"'), Raw('"\\udfff"'), Raw("yes"),
    Raw("no"), Raw("Null"), Raw("2024-01-01"), Raw("2024-99-99"), Raw("2001-01-01 00:00:00 +99:99"),
    Raw("0001-01-01T00:00:00+23:00"), Raw("="), Raw("<<"), Raw("*absent"),
)  # fmt: skip

TAGGED: tuple[Any, ...] = (
    Raw("!x 3"), Raw("!<tag:yaml.org,2002:int> ''"),
    *map(Raw, (
        '!!int ""', '!!int "_"', '!!int "+"', '!!int "0b"', "!!int x", "!!bool maybe", '!!float ""', "!!float x",
        "!!timestamp x", "!!null 3", "!!binary aGk=", "!!binary é", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]",
        "!!str 3", "!!str [a]", "!!map [a]", "!!seq {a: 1}", "!!python/none", "!!python/name:os.system",
        "!!python/object:tests.lab.fuzz.x.Y {}", "!!python/tuple [1]",
        '!!python/object/apply:os.system ["echo attacked >&2"]',
        '!!python/object/new:os.system ["echo attacked >&2"]', "!!python/module:os", "!!x", "!!merge x", "!!value x",
    )),
)  # fmt: skip

NESTS: tuple[Any, ...] = (
    [], {}, [[]], [{}], {"": ""}, [None], {"a": None}, [1, "a", None], list(range(300)),
    {f"k{n}": n for n in range(300)}, _nested(30, "[", "]"), _nested(60, "[", "]"),
      Raw("{a: " * 60 + "1" + "}" * 60),
      Raw("{1: 2}"), Raw("{null: 1}"), Raw("{true: 1}"),
    Raw("{[1]: 2}"), Raw("{{a: 1}: 2}"), Raw("{1.5: 2}"), Raw("{2024-01-01: 2}"), Raw("{a: 1, a: 2}"), Raw("{? a}"),
    Raw("{<<: 3}"), Raw("{<<: [1]}"), Raw("{<<: {lr: 1}}"), Raw("&loop [*loop]"), Raw("&loop {a: *loop}"),
    Raw("{<<: &m {a: 1}, b: *m}"), Raw('{"\\ud800": 1}'), Raw('{"\\e[31m": 1}'), Raw('{"a\\nb": 1}'),
    Raw("{" + "k" * 5000 + ": 1}"),
)  # fmt: skip

AXES: tuple[Any, ...] = (
    {"uniform": [0, 1]}, {"uniform": [1, 0]}, {"uniform": [0]}, {"uniform": [0.1, 0.1]}, {"choice": []}, {"choice": 3},
    {"uniform": [Raw("-1.7e+308"), Raw("1.7e+308")]}, {"uniform": [Raw(".nan"), 1]}, {"uniform": [0, Raw(".inf")]},
    {"log_uniform": [Raw("1e-5"), Raw("1e-3")]}, {"log_uniform": [Raw("5.0e-324"), Raw("1.7976931348623157e+308")]},
    {"log_uniform": [0, 1]}, {"log_uniform": [-1, 1]}, {"int_uniform": [1, 4]}, {"int_uniform": [-(10**30), 10**30]},
    {"int_uniform": [0, 2**63 - 1]}, {"int_uniform": [-(2**63), 2**63 - 1]}, {"int_uniform": [0, 2**63]},
    {"int_uniform": [Raw("1.0e+30"), Raw("1.0e+31")]}, {"int_uniform": ["1", "2"]}, {"choice": [1], "uniform": [0, 1]},
    {"choice": [None]}, {"choise": [1]}, [None], [[]], [{}],
)  # fmt: skip


# Each takes a good part of a second until it is refused, so they are rare.
DEEP: tuple[Any, ...] = (
    _nested(400, "[", "]"), _nested(3000, "[", "]"), Raw("[" * 3000), Raw("{a: " * 1000 + "1" + "}" * 1000),
    Raw("? " * 400), Raw("[" * 250 + "]" * 250 + ", 1" * 50),
)  # fmt: skip


def odd_value(rng: random.Random) -> Any:
    """A value that may be wrong where it is put; a new one each time, as it may be changed there."""
    rows = (DEEP,) if rng.random() < 0.004 else (NUMBERS, NUMBERS, WORDS, WORDS, TAGGED, NESTS, AXES)
    return copy.deepcopy(rng.choice(rng.choice(rows)))


def as_yaml(value: Any) -> str:
    """A value in YAML's flow style, on one line; what is `Raw` as it stands."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_yaml(key)}: {as_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f").replace("\x85", "\\x85")
