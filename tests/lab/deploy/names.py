"""A name server for the containers of a bridge: A records from a file, read anew at every question.

python -m tests.lab.deploy.names ADDRESS FILE

Docker has one of its own at 127.0.0.11. A file of hosts would not do: Prometheus asks a server for its targets.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from pathlib import Path

_A, _INTERNET = 1, 1
_ANSWER, _RECURSION = 0x8000, 0x0180  # recursion desired and available, as resolvers expect
_NO_SUCH_NAME = 3


def answered(question: bytes, names: dict[str, list[str]]) -> bytes:
    """The reply to one question (RFC 1035, section 4), with no addresses for other types than A."""
    number = question[:2]
    labels, at = [], 12
    while size := question[at]:
        labels.append(question[at + 1 : at + 1 + size].decode("ascii").lower())
        at += 1 + size
    kind, _ = struct.unpack_from("!HH", question, at + 1)
    asked = question[12 : at + 5]
    addresses = names.get(".".join(labels))
    found = addresses if addresses and kind == _A else []
    code = 0 if addresses else _NO_SUCH_NAME
    head = struct.pack("!HHHHH", _ANSWER | _RECURSION | code, 1, len(found), 0, 0)
    records = [b"\xc0\x0c" + struct.pack("!HHIH", _A, _INTERNET, 0, 4) + socket.inet_aton(a) for a in found]
    return number + head + asked + b"".join(records)


def main() -> None:
    address, file = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            question, client = server.recvfrom(512)
            server.sendto(answered(question, json.loads(Path(file).read_text(encoding="utf-8"))), client)


if __name__ == "__main__":
    main()
