"""What an S3 keeps and how it answers: objects (whole or in ranges), ListObjectsV2 in pages, multipart uploads.

Its promises are S3's: what was written is there as a whole and listed at once, keys come in the order of their bytes.
"""

from __future__ import annotations

import hashlib
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from sortedcontainers import SortedDict  # of hypothesis

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"  # the pair of Amazon's own documentation; it opens nothing
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
RENEWED_KEY = "ASIAIOSFODNN7RENEWED"  # valid too
BUCKET = "bucket"


class Answer(NamedTuple):
    """What a request is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Asked(NamedTuple):
    """A request: key is empty where it asks for the bucket."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


def refusal(status: int, code: str, message: str) -> Answer:
    return _xml(f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>", status)


def _xml(content: str, status: int = 200) -> Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{content}'.encode()
    return Answer(status, body, {"Content-Type": "application/xml"})


class Objects:
    """The buckets' objects, in memory.

    Attributes:
        page: Keys a page of a listing.
        has_conditions: Whether `If-None-Match: *` is honoured; some other implementations ignore it.
    """

    def __init__(self, page: int = 1000, *, has_conditions: bool = True) -> None:
        self.page, self.has_conditions = page, has_conditions
        self._buckets: dict[str, SortedDict] = {BUCKET: SortedDict()}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Answer:
        """One request at a time, so that each is seen as a whole or not at all."""
        key_id = re.search(r"Credential=([^/]*)/", asked.headers.get("authorization", ""))
        if key_id is None:
            return refusal(403, "AccessDenied", "Access Denied")
        if key_id[1] not in (
            ACCESS_KEY,
            RENEWED_KEY,
        ):  # S3 does not repeat the key in the message; another implementation might
            return refusal(403, "InvalidAccessKeyId", f"The key {key_id[1]} does not exist in our records.")
        if asked.bucket not in self._buckets:
            return refusal(404, "NoSuchBucket", "The specified bucket does not exist")
        with self._lock:
            return self._method(asked)(asked, self._buckets[asked.bucket])

    def _method(self, asked: Asked) -> Callable[[Asked, SortedDict], Answer]:
        special = next((word for word in ("uploads", "uploadId", "delete") if word in asked.query), "")
        known: dict[tuple[str, str], Callable[[Asked, SortedDict], Answer]] = {
            ("GET", ""): self._get if asked.key else self._list,
            ("HEAD", ""): self._get if asked.key else lambda asked, objects: Answer(),
            ("PUT", ""): self._put,
            ("DELETE", ""): self._delete,
            ("POST", "delete"): self._delete_many,
            ("POST", "uploads"): self._begin,
            ("PUT", "uploadId"): self._put_piece,
            ("POST", "uploadId"): self._finish,
            ("DELETE", "uploadId"): self._abort,
        }
        not_here = refusal(501, "NotImplemented", f"{asked.method} {special}")
        return known.get((asked.method, special), lambda asked, objects: not_here)

    def _get(self, asked: Asked, objects: SortedDict) -> Answer:
        if asked.key not in objects:
            return refusal(404, "NoSuchKey", "The specified key does not exist.")
        body, headers = objects[asked.key], {"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        headers |= {"ETag": _etag(body), "Accept-Ranges": "bytes"}
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
        if match is None:
            return Answer(200, body, headers)
        start, end = int(match[1]), min(int(match[2] or len(body)), len(body) - 1)
        if start >= len(body):
            return refusal(416, "InvalidRange", "The requested range is not satisfiable")
        return Answer(206, body[start : end + 1], headers | {"Content-Range": f"bytes {start}-{end}/{len(body)}"})

    def _put(self, asked: Asked, objects: SortedDict) -> Answer:
        if self.has_conditions and asked.headers.get("if-none-match") == "*" and asked.key in objects:
            return refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        objects[asked.key] = asked.body
        return Answer(headers={"ETag": _etag(asked.body)})

    def _delete(self, asked: Asked, objects: SortedDict) -> Answer:
        objects.pop(asked.key, None)
        return Answer(204)

    def _delete_many(self, asked: Asked, objects: SortedDict) -> Answer:
        keys = [element.text or "" for element in ElementTree.fromstring(asked.body).iter() if _tag(element) == "Key"]
        for key in keys:
            objects.pop(key, None)
        return _xml("<DeleteResult/>")

    def _list(self, asked: Asked, objects: SortedDict) -> Answer:
        query = asked.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start = unquote(query.get("continuation-token", query.get("start-after", "")))
        size = min(int(query.get("max-keys", self.page)), self.page)
        found: dict[str, bytes | None] = {}  # None: a common prefix
        for key in objects.irange(max(prefix, start)):
            if not key.startswith(prefix):
                break
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if (shown_as := f"{prefix}{head}{cut}" if cut else key) > start:
                found.setdefault(shown_as, None if cut else objects[key])
            if len(found) > size:
                break
        shown, more = list(found)[:size], len(found) > size
        token = f"<NextContinuationToken>{quote(shown[-1], safe='')}</NextContinuationToken>" if more else ""
        return _xml(
            f"<ListBucketResult><Name>{asked.bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(shown)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            f"{''.join(_listed(key, found[key]) for key in shown)}</ListBucketResult>"
        )

    def _begin(self, asked: Asked, objects: SortedDict) -> Answer:
        upload = uuid.uuid4().hex
        self._uploads[upload] = {}
        return _xml(
            f"<InitiateMultipartUploadResult><Bucket>{asked.bucket}</Bucket><Key>{escape(asked.key)}</Key>"
            f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        )

    def _put_piece(self, asked: Asked, objects: SortedDict) -> Answer:
        if asked.query["uploadId"] not in self._uploads:
            return refusal(404, "NoSuchUpload", "The specified upload does not exist.")
        self._uploads[asked.query["uploadId"]][int(asked.query["partNumber"])] = asked.body
        return Answer(headers={"ETag": _etag(asked.body)})

    def _finish(self, asked: Asked, objects: SortedDict) -> Answer:
        pieces = self._uploads.pop(asked.query["uploadId"], None)
        if pieces is None:
            return refusal(404, "NoSuchUpload", "The specified upload does not exist.")
        listed = [int(e.text or 0) for e in ElementTree.fromstring(asked.body).iter() if _tag(e) == "PartNumber"]
        if not listed or any(number not in pieces for number in listed):
            return refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        objects[asked.key] = b"".join(pieces[number] for number in sorted(listed))
        etag = escape(_etag(objects[asked.key]))
        return _xml(
            f"<CompleteMultipartUploadResult><Bucket>{asked.bucket}</Bucket><Key>{escape(asked.key)}</Key>"
            f"<ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        )

    def _abort(self, asked: Asked, objects: SortedDict) -> Answer:
        self._uploads.pop(asked.query["uploadId"], None)
        return Answer(204)


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _listed(key: str, body: bytes | None) -> str:
    if body is None:
        return f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        f"<ETag>{escape(_etag(body))}</ETag><Size>{len(body)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )
