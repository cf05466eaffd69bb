"""What linters do not know of in compose files and images: mounts that exist, secrets declared, ports on loopback."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.examples import each

CHECKOUT = Path(__file__).parents[2]
DOCKER = CHECKOUT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


@each("name", SERVICES)
def test_a_service_is_reached_from_this_machine_only(name: str) -> None:
    assert all(str(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert SERVICES[name].get("network_mode", "none") == "none"


@each("name", SERVICES)
def test_a_service_has_no_more_rights_than_it_needs_and_a_pinned_image(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+", service["image"])
    assert not service.get("privileged")
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"]
    assert {"cpus", "memory"} <= set(service["deploy"]["resources"]["limits"])
    assert service.get("user") != "0:0" or name == "owner"


def test_every_mounted_file_and_volume_and_secret_exists() -> None:
    for service in SERVICES.values():
        for source in (volume.split(":")[0] for volume in service.get("volumes", [])):
            assert (DOCKER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    used = {name for service in SERVICES.values() for name in service.get("secrets", [])}
    assert used == set(COMPOSE["secrets"])


def test_a_secret_that_a_variable_names_is_mounted_there_and_none_stands_in_a_variable() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if "/run/secrets/" in str(value):
                assert value.removeprefix("/run/secrets/") in service["secrets"], name
            else:
                assert not re.search("KEY|TOKEN|SECRET|PASSWORD", name), name


def test_secrets_are_made_once_each_unlike_the_others_and_closed_to_git(tmp_path: Path) -> None:
    words = ["sh", str(DOCKER / "make_secrets.sh"), str(tmp_path / "secrets")]
    subprocess.run(words, check=True)
    first = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    subprocess.run(words, check=True)
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == first
    assert set(first) == {*COMPOSE["secrets"], ".gitignore"}
    assert len(set(first.values())) == len(first)
    (identity,) = json.loads(first["s3.json"])["identities"]
    assert identity["credentials"] == [{"accessKey": first["s3_access_key"], "secretKey": first["s3_secret_key"]}]
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


def test_the_images_are_made_of_what_the_ignore_file_lets_through_and_need_nothing_else() -> None:
    copied = {word for line in _steps("COPY") for word in line.split()[:-1] if not line.startswith("--from")}
    let_through = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_through
    assert all((CHECKOUT / name).exists() for name in copied)


def test_the_image_runs_as_nobody_and_its_main_process_is_the_entrypoint() -> None:
    assert list(_steps("USER")) == ["10001:10001"]
    assert ast.literal_eval(next(_steps("ENTRYPOINT"))) == ["python", "/opt/permafrost/entrypoint.py"]
    assert [line.rpartition(" AS ")[2] for line in _steps("FROM")][-2:] == ["cuda", "cpu"]


def _steps(word: str) -> Iterator[str]:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith(f"{word} "):
            yield line.removeprefix(f"{word} ").strip()
