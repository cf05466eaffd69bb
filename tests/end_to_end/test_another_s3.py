"""A store on an S3 of another project, moto's server, which checks signatures and access rights, over TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import write_sweep
from tests.server_programs import free_port, wait_for

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
# A user who may use S3 and nothing else, and a bucket.
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
key = iam.create_access_key(UserName="lab")["AccessKey"]
boto3.client("s3", **known).create_bucket(Bucket="bucket")
print(key["AccessKeyId"], key["SecretAccessKey"])
"""
UNCHECKED = "4"  # requests, those of USER


class Server:
    """Its address, and the environment of who may use it."""

    def __init__(self, url: str, key: str, secret: str, certificate: str) -> None:
        self.url = url
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.environment = kept | {"AWS_EC2_METADATA_DISABLED": "true", "SSL_CERT_FILE": certificate}
        self.environment |= {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    def address(self, prefix: str) -> str:
        return f"s3://bucket/{prefix}?endpoint_override={self.url}&region=us-east-1"

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | variables
        return subprocess.run(
            [sys.executable, *words], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with TLS, a user and a bucket."""
    folder = tmp_path_factory.mktemp("moto")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    named = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    # What an authority's own certificate is, a server's is not.
    named += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*made, *named], check=True, capture_output=True)
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), "-c", certificate, "-k", key]
    started = os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": UNCHECKED}
    with (folder / "log").open("w") as log, subprocess.Popen(words, env=started, stdout=log, stderr=log) as process:
        try:
            wait_for(port, process)
            url = f"https://127.0.0.1:{port}"
            user = [sys.executable, "-c", USER, url, certificate]
            told = subprocess.run(user, check=True, capture_output=True, text=True).stdout.split()
            yield Server(url, told[0], told[1], certificate)
        finally:
            process.terminate()


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
