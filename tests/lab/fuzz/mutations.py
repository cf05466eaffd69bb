"""What disks, editors, networks and attackers do to a file."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load, save

INSERTED = (
    b"\0", b"\t", b"\n", b"\n\n", b"\r", b"\r\n", b" ", b",", b'"', b"'", b"\\", b"#", b"{", b"[", b"-", b"\xff",
    b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1b[31m",
    b"\x85", b"\x0b", b"\x1c", b"\\ud800", b"\\u0000", b"NaN", b"1e999", b"-1", b"9" * 5000, b"x" * 200_000,
    b"\t" * 3000, b" " * 100_000, b"[" * 100_000, b'{"a":' * 5000, b"1-2", b"1.1", "²".encode(), "\u0661".encode(),
    b"../../../etc/passwd", b"-DOCSTART- O\n", b"B-", b"I-LOC", "\u0301\u0316".encode() * 200, b"\x85\xe2\x80\xa9",
    b"\n" * 50_000, b"%s{}", b"&a [*a]", b"<<: *a",
)  # fmt: skip


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The content after one to three accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(MUTATIONS)(rng, content)
    return content


def _flipped(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _replaced(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 4)) if data else 0):
        data[rng.randrange(len(data))] = rng.choice((0, 255, 127, 128, 1, rng.randrange(256)))
    return bytes(data)


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _hollow(rng: random.Random, content: bytes) -> bytes:
    """A stretch of zeros or of nothing, as after a crash."""
    start, length = rng.randrange(len(content) + 1), rng.choice((1, 8, 512, 4096))
    return content[:start] + rng.choice((bytes(len(content[start : start + length])), b"")) + content[start + length :]


def _inserted(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice((*INSERTED, rng.randbytes(rng.randint(1, 64)))) + content[at:]


def _lines(rng: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    n, m = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randint(0, 5):
        case 0:
            del lines[n]
        case 1:
            lines.insert(n, lines[n])
        case 2:
            lines[n], lines[m] = lines[m], lines[n]
        case 3:
            lines[n] = b""
        case 4:
            lines = [line for line in lines if line.strip()]  # no sentence ends
        case 5:
            lines[n] = lines[n] + lines[m]
    return b"\n".join(lines)


def _columns(rng: random.Random, content: bytes) -> bytes:
    separator = rng.choice((b"\t", b" ", b",", b'"'))
    pieces = content.split(separator)
    n = rng.randrange(len(pieces))
    changed = rng.choice(([], [pieces[n]] * 2, [b""], [b"_"], [b"x" * 200_000], [b"9" * 5000], [b"a  b"]))
    return separator.join([*pieces[:n], *changed, *pieces[n + 1 :]])


def _reencoded(rng: random.Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    match rng.randint(0, 6):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("latin-1", "replace")
        case 2:
            return b"\xef\xbb\xbf" + content
        case 3:
            return content.replace(b"\n", b"\r\n")
        case 4:
            return content.replace(b"\n", b"\r")
        case 5:
            return content.replace(b"\n", b"")
    return gzip.compress(content, 1)


OTHERS = (
    b"", b"\n", b"\n\n\n", b" ", b"\0", b"#", b"{}", b"[]", b"null", b"1", b"PAR1", b"PAR1" + bytes(8) + b"PAR1",
    b"\x1f\x8b",
)  # fmt: skip


def _other(rng: random.Random, content: bytes) -> bytes:
    return rng.choice((*OTHERS, content * 2, content[::-1], rng.randbytes(rng.randint(1, 4000))))


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flipped, _flipped, _replaced, _cut, _hollow, _inserted, _inserted, _lines, _lines, _columns, _columns, _reencoded,
    _other,
)  # fmt: skip


# --- JSON


JSON_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 10**400, "", "x", "../../../tmp/x", "/etc/passwd", "a/b", "\ud800", "\0", "x" * 5000,
    "\x1b[31m", [], {}, [[]], [1], ["a", {}], [["a", {}]], [["a", 1]], {"a": 1}, "nan", "1", [[None, None]], ["ab"],
)  # fmt: skip


def mutated_json(rng: random.Random, content: bytes) -> bytes:
    """Another value somewhere, a key more or less; or an accident of its bytes."""
    if rng.random() < 0.3:
        return mutated(rng, content)
    if rng.random() < 0.1:
        raw = rng.choice((b"NaN", b"Infinity", b"1e999", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b'"\\ud800"'))
        numbers = [i for i in range(len(content)) if content[i : i + 2] == b": "]
        at = rng.choice(numbers or [0])
        return content[:at] + b": " + raw + b", " + b'"x": ' + content[at + 2 :]
    whole = json.loads(content)
    containers = list(_containers(whole))
    for _ in range(rng.choice((1, 1, 2))):
        inside = rng.choice(containers)
        key = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        match rng.randint(0, 3):
            case 0:
                inside.pop(key)
            case 1 if isinstance(inside, dict):
                inside["unknown"] = copy.deepcopy(rng.choice(JSON_VALUES))
            case _:
                inside[key] = copy.deepcopy(rng.choice(JSON_VALUES))
        containers = list(_containers(whole))
        if not containers:
            break
    return json.dumps(whole).encode()


def _containers(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict | list) and value else []) + [c for v in inside for c in _containers(v)]


# --- Parquet


def mutated_parquet(rng: random.Random, content: bytes) -> bytes:
    """Other columns, types or values in a whole file; or an accident of its bytes."""
    if rng.random() < 0.6:
        return mutated(rng, content)
    table = pq.read_table(io.BytesIO(content))
    for _ in range(rng.choice((1, 1, 2))):
        table = _restructured(rng, table)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _restructured(rng: random.Random, table: pa.Table) -> pa.Table:
    if not table.num_columns:
        return table
    n = rng.randrange(table.num_columns)
    name, size = table.column_names[n], len(table)
    if size and rng.random() < 0.3:
        return _without_keys(rng, table)
    match rng.randint(0, 7):
        case 0:
            return table.remove_column(n)
        case 1:
            return table.append_column(name, table.column(n))  # twice
        case 2:
            return table.slice(0, rng.choice((0, 1)))
        case 3:
            return table.replace_schema_metadata(rng.choice((None, *METADATA)))
        case 4:
            return table.append_column("unknown", pa.nulls(size))
        case 5:
            return _bomb(table)
    return table.set_column(n, name, _column(rng, size))


def _without_keys(rng: random.Random, table: pa.Table) -> pa.Table:
    """A row of a store that belongs to no trial, or whose state is none."""
    keys = {"trial_id", "attempt", "step", "state", "split", "sentence", "tag"} & set(table.column_names)
    if not keys:
        return table
    name = rng.choice(sorted(keys))
    values = table[name].to_pylist()
    odd = rng.choice((None, "unknown", "")) if pa.types.is_string(table[name].type) else None
    values[rng.randrange(len(values))] = odd
    return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))


def _bomb(table: pa.Table) -> pa.Table:
    """Kilobytes that unpack to 64 MB: the same 16 KiB of text, 4,000 times."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array(["x" * 2**14]))
    rows = table.take(pa.array([0] * 4000)) if len(table) else table
    return rows.set_column(0, rows.column_names[0], text) if len(rows) else rows


METADATA = [{"permafrost.schema_version": text} for text in ("0", "1", "2", "99", "-1", "", "x", "²", "9" * 5000)]


def _column(rng: random.Random, size: int) -> pa.Array:
    """Values of any kind, among them what looks like a pickle that runs a command."""
    pickled = b"cos\nsystem\n(S'echo attacked >&2'\ntR."
    values: list[Any] = rng.choice(
        [
            [None], ["x"], [""], ["a\0b"], ["{}"], ["../../x"], ["\x1b[31m"], ["1"], [1], [-1], [2**62], [1.5],
            [float("nan")], [float("inf")], [True], [pickled], [b"\xff"], [["a"]], [[1]], [[None]], [[]], [{"a": 1}],
            [None, "x"], ["x" * 100_000],
        ]
    )  # fmt: skip
    return pa.array([values[i % len(values)] for i in range(size)])


# --- Safetensors


def mutated_checkpoint(rng: random.Random, content: bytes) -> bytes:
    """Another value in its JSON, a tensor more, less or of another shape; or an accident of its bytes."""
    if rng.random() < 0.2:
        return mutated(rng, content)
    tensors = load(content)
    if rng.random() < 0.6:
        state = mutated_json(rng, bytes(tensors["state.json"].numpy()))
        tensors["state.json"] = torch.frombuffer(bytearray(state or b" "), dtype=torch.uint8)
        return save(tensors)
    name = rng.choice(sorted(tensors))
    odd = (torch.zeros(0), torch.ones(3, 5, dtype=torch.int64), torch.full_like(tensors[name], 1), torch.tensor(1.5))
    match rng.randint(0, 2):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(("unknown", "weights/x", "optimizer/x/y", "dropout/9", "best/999"))] = rng.choice(odd)
        case 2:
            tensors[name] = rng.choice(odd)
    return save({key: tensor.clone() for key, tensor in tensors.items()})
