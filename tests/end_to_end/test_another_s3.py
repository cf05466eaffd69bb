"""A store on an S3 of another project, moto's server, which checks signatures and access rights, over TLS."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.builders import write_sweep
from tests.s3_faults import Faults
from tests.server_programs import free_port, server_program, wait_for
from tests.servers import QuietServer

pytestmark = pytest.mark.slow
CHECKOUT = Path(__file__).parents[2]
SWEEP = """
name: far
trial:
  data: {bundled: UD_Naija-NSC-sample}
  optim: {lr: 1e-3, epochs: 2, batch_size: 8}
  train_size: 16
space:
  freeze: [{strategy: first_k, depth: 4, embeddings: true}]
seeds: [0]
"""
# Run by the server's Python, which has Amazon's client: a user who may use S3 and nothing else, and a bucket.
USER = """
import json, sys
import boto3
known = dict(endpoint_url=sys.argv[1], region_name="us-east-1", verify=sys.argv[2] or None,
             aws_access_key_id="first", aws_secret_access_key="first")
iam = boto3.client("iam", **known)
iam.create_user(UserName="lab")
allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
iam.put_user_policy(UserName="lab", PolicyName="s3", PolicyDocument=policy)
keys = [iam.create_access_key(UserName="lab")["AccessKey"] for _ in range(2)]
boto3.client("s3", **known).create_bucket(Bucket="bucket")
print(*(key[name] for key in keys for name in ("AccessKeyId", "SecretAccessKey")))
"""
UNCHECKED = "5"  # requests, those of USER
LISTED = """
import sys
from orchestrator.storage.open_storage import open_storage
storage = open_storage(sys.argv[1])
for number in range(1005):
    storage.write(f"{number:04}", b"x")
print(len(storage.files()))
"""
CREATED = """
import sys
from orchestrator.storage.open_storage import open_storage
claims = open_storage(sys.argv[1]).at("claims")
print(claims.honours_create(), *[claims.create("a", content) for content in (b"first", b"second", b"first")])
"""


class Server:
    """Its address, and the environment of those who may use it.

    Attributes:
        keys: Two ids with their secrets, of one user.
    """

    def __init__(self, url: str, keys: Sequence[tuple[str, str]], **more: str) -> None:
        self.url, self.keys = url, keys
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.environment = kept | {"AWS_EC2_METADATA_DISABLED": "true"} | more
        self.environment |= {"AWS_ACCESS_KEY_ID": keys[0][0], "AWS_SECRET_ACCESS_KEY": keys[0][1]}

    def address(self, prefix: str, url: str | None = None) -> str:
        return f"s3://bucket/{prefix}?endpoint_override={url or self.url}&region=us-east-1"

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | variables
        return subprocess.run(
            [sys.executable, *words], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )


@contextlib.contextmanager
def moto(folder: Path, certificate: str = "", key: str = "") -> Iterator[Server]:
    """A server with a user and a bucket; with TLS where it is given a certificate."""
    program, port = server_program("moto_server"), free_port()
    words = [program, "-H", "127.0.0.1", "-p", str(port), *(["-c", certificate, "-k", key] if certificate else [])]
    started = os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": UNCHECKED}
    with (folder / "log").open("w") as log, subprocess.Popen(words, env=started, stdout=log, stderr=log) as process:
        try:
            wait_for(port, process)
            url = f"http{'s' if certificate else ''}://127.0.0.1:{port}"
            user = [str(Path(program).with_name("python")), "-c", USER, url, certificate]
            told = subprocess.run(user, check=True, capture_output=True, text=True).stdout.split()
            yield Server(
                url, [(told[0], told[1]), (told[2], told[3])], **({"SSL_CERT_FILE": certificate} if certificate else {})
            )
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("moto")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    named = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    # What an authority's own certificate is, a server's is not.
    named += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*made, *named], check=True, capture_output=True)
    with moto(folder, certificate, key) as server:
        yield server


class Provider(QuietServer):
    """Gives temporary credentials, as the agents of containers' identities do.

    Attributes:
        pair: An id and its secret, given to who asks from now on.
    """

    def __init__(self, pair: tuple[str, str]) -> None:
        super().__init__(_Credentials)
        self.pair = pair


class _Credentials(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        until = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
        key, secret = self.server.pair
        given = {"AccessKeyId": key, "SecretAccessKey": secret, "Token": None, "Expiration": until}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(given).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_a_sweep_is_launched_continued_and_verified(server: Server, tmp_path: Path) -> None:
    sweep, address = write_sweep(tmp_path / "far.yaml", SWEEP), server.address("team/results")
    launch = ("-m", "orchestrator.launch", "--sweep", str(sweep), "--cluster", "inline", "--json", "--store", address)
    first = json.loads(server.run(*launch).stdout)
    second = json.loads(server.run(*launch, "--set", "seeds=[0,1]").stdout)
    assert (first["completed"], first["skipped"]) == (1, 0)
    assert (second["completed"], second["skipped"]) == (1, 1)
    verified = server.run("-m", "dashboards.cli", "store", "verify", address)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_signature_made_with_another_secret_is_refused(server: Server) -> None:
    status = ("-m", "orchestrator.status", "--store", server.address("team/results"))
    refused = server.run(*status, AWS_SECRET_ACCESS_KEY="another")
    assert refused.returncode == 3
    assert "Access needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in refused.stderr


def test_a_server_of_an_unknown_authority_is_refused(server: Server) -> None:
    status = ("-m", "orchestrator.status", "--store", server.address("team/results"))
    refused = server.run(*status, SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt")
    assert refused.returncode == 3
    assert "InvalidCertificate" in refused.stderr


def test_more_objects_than_a_page_of_a_listing_holds_are_all_found(server: Server) -> None:
    listed = server.run("-c", LISTED, server.address("many"))
    assert (listed.stdout.strip(), listed.stderr) == ("1005", "")


def test_an_object_is_created_once(server: Server) -> None:
    created = server.run("-c", CREATED, server.address("shared"))
    assert (created.stdout.split(), created.stderr) == (["True", "True", "False", "True"], "")


def test_a_sweep_outlives_slow_down_and_credentials_that_expire_in_its_middle(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "far.yaml", SWEEP)
    with moto(tmp_path) as server, Faults(server.url) as faults, Provider(server.keys[0]) as provider:
        address = server.address("team/results", faults.url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del server.environment[name]
        ended = threading.Event()

        def harm() -> None:
            while not any(asked[0] == "PUT" and "/epochs/" in asked[1] for asked in faults.asked):
                if ended.wait(0.05):
                    return
            faults.status = 503
            time.sleep(5)
            faults.status, faults.expired = None, server.keys[0][0]
            time.sleep(2)
            provider.pair = server.keys[1]

        harming = threading.Thread(target=harm)
        harming.start()
        words = (
            "-m",
            "orchestrator.launch",
            "--sweep",
            str(sweep),
            "--cluster",
            "inline",
            "--json",
            "--store",
            address,
        )
        told = server.run(*words, AWS_CONTAINER_CREDENTIALS_FULL_URI=provider.url)
        ended.set()
        harming.join()
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["completed"] == 1
        assert faults.spoilt["refused"] > 0
        assert faults.spoilt["expired"] > 0
