"""Knock at the ports of a Ray without its token, or with a wrong one, and say what each answers.

python -m tests.end_to_end.knock HOST:PORT ...      # a JSON object: {"HOST:PORT": "401" | "UNAUTHENTICATED" | ...}
"""

from __future__ import annotations

import http.client
import json
import socket
import sys

import grpc  # type: ignore[import-untyped]

WRONG = (("authorization", "Bearer wrong"),)
# A method of each gRPC service that Ray's processes offer; which of them a port has is found out by asking.
METHODS = (
    "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.ReporterService/GetTraceback",
    "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "/ray.rpc.HealthCheckGcsService/CheckAlive",
    "/ray.rpc.RayletDriver/ClusterInfo",
    "/ray.rpc.RuntimeEnvService/GetRuntimeEnvsInfo",
)
PATHS = ("/api/jobs/", "/api/v0/actors", "/metrics", "/")


def main(addresses: list[str]) -> None:
    """Print what each answers."""
    sys.stdout.write(json.dumps({address: answer(address) for address in addresses}))


def answer(address: str) -> str:
    """The HTTP status of the first path that exists, else the gRPC code of the first method, `silent` or `closed`."""
    if not _is_open(address):
        return "closed"
    found = [_http(address, path) for path in PATHS]
    statuses = [status for status in found if status not in (None, 404)]
    if statuses:
        return str(statuses[0])
    codes = [_grpc(address, method) for method in METHODS]
    return next((code for code in codes if code not in ("UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED")), "silent")


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


def _http(address: str, path: str) -> int | None:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": "Bearer wrong"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _grpc(address: str, method: str) -> str:
    with grpc.insecure_channel(address) as channel:
        try:
            channel.unary_unary(method)(b"", timeout=10, metadata=WRONG)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


if __name__ == "__main__":
    main(sys.argv[1:])
