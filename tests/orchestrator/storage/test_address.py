"""Addresses of stores: what they may say, and that no error repeats a secret."""

from __future__ import annotations

import pytest

from orchestrator.storage.address import Address, endpoint_url, is_address, parse_address, scrub
from tests.examples import each
from trials.errors import ConfigError

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse_address(text)
    assert error.value.exit_code == 2
    return str(error.value)


@each(
    "text, address",
    [
        ("s3://bucket", Address("s3", "bucket", "")),
        ("S3://bucket/a/b/", Address("s3", "bucket", "a/b")),
        ("s3://bucket/a?region=eu-west-1", Address("s3", "bucket", "a", {"region": "eu-west-1"})),
        ("gs://bucket/a", Address("gs", "bucket", "a")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_a_folder_is_no_address_and_one_without_a_bucket_or_a_plain_path_is_refused() -> None:
    assert [text for text in ("results", "./s3", "/tmp/x", "~/x", "a:b", "s3") if is_address(text)] == []
    for text in ("s3:///x", "gs:///x", "s3://"):
        assert "has no bucket" in refusal(text)
    for text in ("s3://bucket/a//b", "s3://bucket/a#b", "s3://bucket/a?region=x#b"):
        assert "must be a plain path" in refusal(text)


@each(
    "text",
    [
        f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket/x",
        "s3://user:wJalrXUt@bucket/x",
        "gs://user:wJalrXUt@bucket/x",
        "s3://bucket/x?access_key=wJalrXUt",
        f"s3://bucket/x?region={SECRET}",
        f"s3://bucket/x?{SECRET}=1",
        "s3://bucket/x?endpoint_override=http://user:wJalrXUt@host:9000",
        "gs://bucket/x?region=wJalrXUt",
        "https://user:wJalrXUt@host/x",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    message = refusal(text)
    assert "wJalrXUt" not in message
    assert "AKIA" not in message


def test_an_endpoint_is_the_addresss_or_the_environments_whose_secret_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert endpoint_url(Address("s3", "b", "")) is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000/")
    assert endpoint_url(Address("s3", "b", "")) == "http://minio:9000"
    assert endpoint_url(Address("gs", "b", "")) is None
    given = {"endpoint_override": "other:1", "scheme": "http"}
    assert endpoint_url(Address("s3", "b", "", given)) == "http://other:1"
    assert endpoint_url(Address("s3", "b", "", {"endpoint_override": "other:1"})) == "https://other:1"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:wJalrXUt@minio:9000")
    with pytest.raises(ConfigError) as error:
        endpoint_url(Address("s3", "b", ""))
    assert str(error.value) == "AWS_ENDPOINT_URL: must be http://host:port, without a user or a path."


@each(
    "message",
    [
        f"signature of {SECRET} is wrong",
        "key AKIAIOSFODNN7EXAMPLE unknown",
        "GET http://user:wJalrXUt@host/x failed",
        "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835&x",
        "X-Amz-Security-Token=FwoGZXIvYXdzEBYaDHqa0AP",
        "Authorization: Bearer abc.def-ghi",
        "token ya29.a0AfH6SMBx-y",
    ],
)
def test_what_looks_like_a_key_is_taken_out_of_a_librarys_message(message: str) -> None:
    found = scrub(message)
    assert "***" in found
    for secret in (SECRET, "AKIAIOSF", "wJalrXUt", "aeeed9", "FwoGZX", "abc.def", "ya29"):
        assert secret not in found


def test_the_environments_secrets_are_taken_out_whatever_they_look_like_and_names_of_objects_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter22")
    assert scrub("bad key hunter22.") == "bad key ***."
    message = "key 'my/long/prefix/of/a/store/epochs/part-01795205817315137614-d1ff5195.parquet' in bucket 'bucket'"
    assert scrub(message) == message
