"""Ray's channels under TLS with the script's certificates: two nodes run a task, a stranger is turned away."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployments import DEPLOYMENT
from tests.lab.chaos.cluster import CHECKOUT, Nodes

SCRIPT = CHECKOUT / "docker" / "make_certificates.sh"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="apt-get install openssl")
TASK = """
import ray
ray.init(address="auto", log_to_driver=False)
places = ray.get([ray.remote(lambda: ray.get_runtime_context().get_node_id()).options(
    scheduling_strategy="SPREAD").remote() for _ in range(9)])
print(len(ray.nodes()), len(set(places)))
"""
# A connection that is refused is tried again for long; what counts is that it never comes about.
KNOCK = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).check_alive([], timeout=float(sys.argv[2]))
"""


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name leaves room for Ray's sockets, whose paths are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tls-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def certificates(folder: Path, *names: str) -> dict[str, str]:
    subprocess.run(["sh", str(SCRIPT), str(folder), *names], check=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / "node.crt"),
        "RAY_TLS_SERVER_KEY": str(folder / "node.key"),
        "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
    }


@needs_openssl
def test_the_certificate_is_for_the_names_and_from_the_authority_which_is_kept(tmp_path: Path) -> None:
    certificates(tmp_path, "10.1.2.3", "head")
    authority = (tmp_path / "ca.crt").read_text()
    certificates(tmp_path, "10.1.2.4")
    assert (tmp_path / "ca.crt").read_text() == authority
    told = subprocess.run(["openssl", "verify", "-CAfile", str(tmp_path / "ca.crt"), "-verify_ip", "10.1.2.4",
                           str(tmp_path / "node.crt")], capture_output=True, text=True, check=False)  # fmt: skip
    assert told.returncode == 0, told.stderr
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "node.crt", tmp_path / "node.key")
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.key"))


@DEPLOYMENT
@pytest.mark.cluster
@pytest.mark.timeout(600)
@needs_openssl
def test_nodes_with_certificates_run_tasks_and_a_client_without_is_refused(short_path: Path) -> None:
    nodes = Nodes(short_path / "n")
    names = [nodes._address(node) for node in range(3)]
    tls = certificates(short_path / "tls", *names)
    nodes.environment |= tls

    def python(code: str, environment: dict[str, str], patience_s: float = 120) -> subprocess.CompletedProcess[str]:
        words = [*nodes.prefix, sys.executable, "-c", code, environment["RAY_ADDRESS"], str(patience_s)]
        return subprocess.run(words, cwd=nodes.driver_folder, env=environment, capture_output=True, text=True,
                              check=False, timeout=150)  # fmt: skip

    with nodes:
        told = python(TASK, nodes.environment)
        assert told.stdout.split()[:1] == ["3"], told.stderr[-3000:]
        assert python(KNOCK, nodes.environment).returncode == 0
        stranger = {name: value for name, value in nodes.environment.items() if name not in tls}
        assert python(KNOCK, stranger, 5).returncode != 0
        other = certificates(short_path / "other", *names)
        assert python(KNOCK, nodes.environment | other, 5).returncode != 0
