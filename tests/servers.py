"""Real HTTP servers on loopback in the place of a treebank's repository and of the model hub.

Both keep a log of what was asked, so that a test can say that nothing was, and can be told to misbehave.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

Files = Mapping[str, bytes]
_WITHIN = r"(?=/(?:revision|tree|paths-info|auth-check|resolve)/|/auth-check$|/refs(?=\?|$)|\?|$)"  # after a name


class Request(NamedTuple):
    """What a client asked."""

    method: str
    path: str
    headers: dict[str, str]


class Reply(NamedTuple):
    """What it is answered; `cut` sends the length of the whole body but only so many bytes of it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut: int | None = None


def as_json(value: object, status: int = 200, **headers: str) -> Reply:
    headers = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, json.dumps(value).encode(), headers | {"Content-Type": "application/json"})


def git_digest(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class QuietServer(ThreadingHTTPServer):
    """On a free port of an address, while its `with` lasts if it has one; a client that hangs up is no news."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), handler)
        self.host = host
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server_port}"


class LoopbackServer(QuietServer):
    """A server whose `log` holds the requests in order."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.log: list[Request] = []

    def asked(self) -> list[Request]:
        """What was asked since the last call."""
        asked, self.log[:] = list(self.log), []
        return asked

    def reply(self, request: Request, body: bytes) -> Reply:
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.log.append(request)
        reply = _ranged(self.server.reply(request, body), request.headers.get("range"))
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: reply.cut])
        if reply.cut is not None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_WR)

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _ranged(reply: Reply, wanted: str | None) -> Reply:
    """The part that `Range: bytes=N-` asks for."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted or "")
    if not match or reply.status != 200:
        return reply
    start, whole = int(match[1]), len(reply.body)
    if start >= whole:
        return Reply(416, headers={"Content-Range": f"bytes */{whole}"})
    end = min(int(match[2] or whole - 1), whole - 1)
    given = {"Content-Range": f"bytes {start}-{end}/{whole}"}
    return Reply(206, reply.body[start : end + 1], {**given, **reply.headers}, reply.cut)


class UdServer(LoopbackServer):
    """Repositories of treebanks: the listing of a release, and the files themselves.

    Attributes:
        treebanks: (name, release) to file name to content.
        cuts: For each file the bytes after which the connection is cut; one entry is used up by each request.
        wrong: Files that are served with other bytes than listed.
        status: What any request is answered with, if not 200.
    """

    def __init__(self, treebanks: Mapping[tuple[str, str], Files]) -> None:
        super().__init__()
        self.treebanks = treebanks
        self.cuts: dict[str, list[int]] = {}
        self.wrong: set[str] = set()
        self.extra: dict[str, str] = {}
        self.status: int | None = None

    def reply(self, request: Request, body: bytes) -> Reply:
        url = urlsplit(request.path)
        if self.status is not None:
            return as_json({"message": "refused"}, self.status, **self.extra)
        if match := re.fullmatch(r"/repos/UniversalDependencies/([^/]+)/tags", url.path):
            tags = [{"name": f"r{release}"} for name, release in self.treebanks if name == match[1]]
            return as_json([*tags, {"name": "draft"}]) if tags else as_json({"message": "Not Found"}, 404)
        if match := re.fullmatch(r"/repos/UniversalDependencies/([^/]+)/contents", url.path):
            return self._listing(match[1], parse_qs(url.query)["ref"][0].removeprefix("r"))
        _, _, name, release, file = url.path.split("/")
        content = self.treebanks[name, release].get(file)
        if content is None:
            return Reply(404)
        if file in self.wrong:
            content = content[::-1]
        cuts = self.cuts.get(file, [])
        return Reply(body=content, headers=self.extra, cut=cuts.pop(0) if cuts else None)

    def _listing(self, name: str, release: str) -> Reply:
        if (name, release) not in self.treebanks:
            known = any(name == there for there, _ in self.treebanks)
            return as_json({"message": f"No commit found for the ref r{release}" if known else "Not Found"}, 404)
        files = [self._entry(name, release, *item) for item in self.treebanks[name, release].items()]
        return as_json([*files, {"type": "dir", "name": "not-to-release", "download_url": None}])

    def _entry(self, name: str, release: str, file: str, content: bytes) -> dict[str, Any]:
        url = f"{self.url}/raw/{name}/{release}/{file}"
        entry = {"type": "file", "name": file, "size": len(content), "sha": git_digest(content)}
        return entry | {"download_url": url}


@dataclass
class HubRepo:
    """A repository of the hub.

    Attributes:
        kind: `datasets` or `models`.
        name: `owner/name`.
        files: Name to content, of its only commit on `main`.
        card: What its card states.
        branches: Other branches: their files.
        gated: Whether its files are kept from everybody.
    """

    kind: str
    name: str
    files: Files
    card: dict[str, Any] = field(default_factory=dict)
    branches: dict[str, Files] = field(default_factory=dict)
    gated: bool = False

    def commit(self, branch: str = "main") -> str:
        """The commit of a branch, which follows from its files."""
        listed = repr([self.name, sorted((self.branches | {"main": self.files})[branch].items())])
        return hashlib.sha1(listed.encode()).hexdigest()

    def at(self, revision: str) -> tuple[str, Files] | None:
        """Commit and files of a branch or commit."""
        for branch, files in (self.branches | {"main": self.files}).items():
            if revision in (branch, self.commit(branch)):
                return self.commit(branch), files
        return None


class HubServer(LoopbackServer):
    """As much of the hub as its libraries ask for: repositories, their trees and files, and its refusals.

    Attributes:
        repos: What there is.
        accepts: The only token it takes; None takes any and none.
        status: What any request is answered with, if not 200.
        moved: Former names of repositories, and the present ones, to which the hub redirects.
    """

    _ROUTES: ClassVar = {
        r"/api/(datasets|models)/([^/]+(?:/[^/]+)?)": "_info",
        r"/api/(datasets|models)/([^/]+(?:/[^/]+)?)/revision/([^/]+)": "_info",
        r"/api/(datasets|models)/([^/]+/[^/]+)/auth-check": "_auth_check",
        r"/api/(datasets|models)/([^/]+/[^/]+)/refs": "_refs",
        r"/api/(datasets|models)/([^/]+/[^/]+)/tree/([^/]+)/?(.*)": "_tree",
        r"/api/(datasets|models)/([^/]+/[^/]+)/paths-info/([^/]+)": "_paths_info",
        r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)": "_file",
    }

    def __init__(self, *repos: HubRepo) -> None:
        super().__init__()
        self.repos = {(repo.kind, repo.name): repo for repo in repos}
        self.accepts: str | None = None
        self.status: int | None = None
        self.moved: dict[str, str] = {}

    def reply(self, request: Request, body: bytes) -> Reply:
        if self.status is not None:
            return Reply(self.status)
        for old, new in self.moved.items():
            if match := re.match(rf"(/(?:api/models/|(?:api/)?datasets/)?){re.escape(old)}{_WITHIN}", request.path):
                return Reply(307, headers={"Location": f"{match[1]}{new}{request.path[match.end() :]}"})
        if self.accepts is not None and request.headers.get("authorization") != f"Bearer {self.accepts}":
            return Reply(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
        path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
        for pattern, name in self._ROUTES.items():
            if match := re.fullmatch(pattern, path):
                kind, repo_name, *rest = match.groups()
                repo = self.repos.get((kind or "models", repo_name))
                if repo is None:
                    return self._refusal(401, "RepoNotFound")
                words = [unquote(word) for word in rest]
                fields = query | parse_qs(body.decode())
                answer: Reply = getattr(self, name)(repo, fields, *words)
                return answer
        return Reply(404)

    def _refusal(self, status: int, code: str) -> Reply:
        return as_json({"error": code}, status, X_Error_Code=code, X_Error_Message=code)

    def _info(self, repo: HubRepo, fields: dict[str, list[str]], revision: str = "main") -> Reply:
        found = repo.at(revision)
        if found is None:
            return self._refusal(404, "RevisionNotFound")
        siblings = [{"rfilename": file} for file in found[1]]
        info = {"id": repo.name, "sha": found[0], "siblings": siblings, "cardData": repo.card}
        return as_json(info | {"gated": "manual" if repo.gated else False, "private": False, "tags": []})

    def _auth_check(self, repo: HubRepo, fields: dict[str, list[str]]) -> Reply:
        return self._refusal(403, "GatedRepo") if repo.gated else as_json({})

    def _refs(self, repo: HubRepo, fields: dict[str, list[str]]) -> Reply:
        refs = [{"name": name, "ref": name, "targetCommit": repo.commit(name)} for name in repo.branches]
        return as_json({"branches": [], "converts": [], "tags": [], "pullRequests": refs})

    def _tree(self, repo: HubRepo, fields: dict[str, list[str]], revision: str, folder: str) -> Reply:
        found = repo.at(revision)
        if found is None:
            return self._refusal(404, "RevisionNotFound")
        start = f"{folder}/" if folder else ""
        inside = [file for file in found[1] if file.startswith(start)]
        if not inside:
            return self._refusal(404, "EntryNotFound")
        entries = _entries(found[1])
        if fields.get("recursive", ["false"])[0].lower() != "true":
            entries = {path: entry for path, entry in entries.items() if "/" not in path.removeprefix(start)}
        return as_json([entry for path, entry in entries.items() if path.startswith(start)])

    def _paths_info(self, repo: HubRepo, fields: dict[str, list[str]], revision: str) -> Reply:
        found = repo.at(revision)
        if found is None:
            return self._refusal(404, "RevisionNotFound")
        entries = _entries(found[1])
        return as_json([entries[path] for path in fields.get("paths", []) if path in entries])

    def _file(self, repo: HubRepo, fields: dict[str, list[str]], revision: str, file: str) -> Reply:
        found = repo.at(revision)
        if repo.gated:
            return self._refusal(403, "GatedRepo")
        if found is None:
            return self._refusal(404, "RevisionNotFound")
        commit, files = found
        if file not in files:
            return as_json({}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        headers = {"ETag": f'"{git_digest(files[file])}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        return Reply(body=files[file], headers=headers)


def _entries(files: Files) -> dict[str, dict[str, Any]]:
    """Files and folders of a tree as the hub lists them."""
    entries: dict[str, dict[str, Any]] = {}
    for file, content in files.items():
        parts = file.split("/")
        for i in range(1, len(parts)):
            folder = "/".join(parts[:i])
            entries[folder] = {"type": "directory", "path": folder, "oid": git_digest(folder.encode()), "size": 0}
        entries[file] = {"type": "file", "path": file, "oid": git_digest(content), "size": len(content)}
    return entries
