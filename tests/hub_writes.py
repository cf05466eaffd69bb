"""The hub's stand-in where models are pushed to: repositories are created, and a commit changes their files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import urlsplit

from tests.servers import Files, HubRepo, HubServer, Reply, Request, as_json


class WritableHub(HubServer):
    """A hub that also takes models.

    Attributes:
        owner: The only account that the token may write to.
        private: Names of private repositories.
        commits: What each commit says and does: a header, then the files and deletions.
        objects: Large files by the SHA-256 of their content.
        bad_metadata: What the hub says against every card.
    """

    def __init__(self, *repos: HubRepo, owner: str = "me") -> None:
        super().__init__(*repos)
        self.owner = owner
        self.private: set[str] = set()
        self.commits: list[list[dict[str, Any]]] = []
        self.objects: dict[str, bytes] = {}
        self.bad_metadata: str | None = None

    def files(self, name: str) -> Files:
        return self.repos["models", name].files

    def reply(self, request: Request, body: bytes) -> Reply:
        path = urlsplit(request.path).path
        refused = self._refused(request)
        if refused is not None or request.method == "GET":
            return refused or self._told(super().reply(request, body))
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            errors = [{"message": self.bad_metadata}] if self.bad_metadata else []
            return as_json({"errors": errors, "warnings": []}, 400 if errors else 200)
        if match := re.fullmatch(r"/objects/(\w+)", path):
            self.objects[match[1]] = body
            return Reply()
        if path.endswith("/info/lfs/objects/batch"):
            return as_json(
                {"transfer": "basic", "objects": [self._batched(each) for each in json.loads(body)["objects"]]}
            )
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", path):
            return self._preupload(json.loads(body)) if match[2] == "preupload" else self._commit(match[1], body)
        return super().reply(request, body)

    def _refused(self, request: Request) -> Reply | None:
        if self.status is not None:
            return Reply(self.status, headers={"X-Error-Message": request.headers.get("authorization", "")})
        signed = request.path.startswith("/objects/")  # needs no token, as on the hub
        if signed or self.accepts is None or request.headers.get("authorization") == f"Bearer {self.accepts}":
            return None
        return Reply(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})

    def _told(self, reply: Reply) -> Reply:
        """With what is private said to be so."""
        content = json.loads(reply.body) if reply.status == 200 else None
        if not isinstance(content, dict) or content.get("id") not in self.private:
            return reply
        return as_json(content | {"private": True})

    def _create(self, wanted: dict[str, Any]) -> Reply:
        name = f"{wanted['organization']}/{wanted['name']}"
        if wanted["organization"] != self.owner:
            return as_json({"error": "no rights"}, 403, X_Error_Message="no rights in this namespace")
        self.repos["models", name] = HubRepo("models", name, {".gitattributes": b""})
        if wanted["visibility"] == "private":
            self.private.add(name)
        return as_json({"url": f"{self.url}/{name}"})

    def _preupload(self, asked: dict[str, Any]) -> Reply:
        modes = {file["path"]: "lfs" if file["path"].endswith(".safetensors") else "regular" for file in asked["files"]}
        return as_json({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes.items()]})

    def _batched(self, wanted: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.url}/objects/{wanted['oid']}"}
        return {**wanted, "actions": {"upload": upload}}

    def _commit(self, name: str, body: bytes) -> Reply:
        repo = self.repos["models", name]
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit", repo.commit()) != repo.commit():
            return as_json({"error": "not the newest"}, 412)
        files = dict(repo.files)
        for line in lines[1:]:
            path, value = line["value"]["path"], line["value"]
            if line["key"] == "deletedFile":
                del files[path]
            elif line["key"] == "lfsFile":
                files[path] = self.objects[value["oid"]]
                assert hashlib.sha256(files[path]).hexdigest() == value["oid"]
            else:
                files[path] = base64.b64decode(value["content"])
        repo.files = files
        self.commits.append(lines)
        url = f"{self.url}/{name}/commit/{repo.commit()}"
        return as_json({"success": True, "commitOid": repo.commit(), "commitUrl": url, "hookOutput": ""})
