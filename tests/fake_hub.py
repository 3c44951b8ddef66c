"""A small Hugging Face Hub on 127.0.0.1, in memory: enough of its HTTP API to create, push, list and load repositories.

    with FakeHub() as hub:
        hub.run(code, tmp_path)
        hub.files("user/repo")["config.json"]

`HF_ENDPOINT` is read when huggingface_hub is imported, so the client must be a process started with `environment`.
`preupload` answers that every file is "regular": weights then arrive base64-encoded in the commit itself, and neither
LFS nor Xet is needed. Anybody with a token may write, the user is called "user", and history is never rewritten.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

USER = "user"


@dataclass
class Repo:
    branches: dict[str, str]  # name -> commit
    snapshots: dict[str, dict[str, bytes]]  # commit -> path -> content
    messages: list[str] = field(default_factory=list)

    def commit_of(self, revision: str) -> str:
        commit = self.branches.get(revision, revision)
        if commit not in self.snapshots:
            raise Refusal(404, f"no revision {revision}", "RevisionNotFound")
        return commit

    def add_commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        state = json.dumps([self.branches.get(branch), len(self.snapshots), sorted(files), message])
        commit = hashlib.sha1(state.encode()).hexdigest()
        self.branches[branch], self.snapshots[commit] = commit, files
        self.messages.append(message)
        return commit


class Refusal(Exception):
    """An HTTP error, with the code in `X-Error-Code` from which huggingface_hub chooses its exception."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        headers: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ):
        super().__init__(message)
        self.status, self.code, self.headers, self.body = status, code, headers or {}, body or {}


class FakeHub:
    """A context manager; `endpoint` is its URL. Every request that it did not know is kept in `unknown_requests`."""

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}  # ("model" | "dataset", "user/name")
        self.unknown_requests: list[str] = []
        self.lock = threading.RLock()
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeHub:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def environment(self, home: str | Path) -> dict[str, str]:
        """The environment of a client process whose cache lies in `home`."""
        unwanted = re.compile(r"(?i).*_proxy|HF_.*|HUGGINGFACE_.*|TRANSFORMERS_(CACHE|OFFLINE)")
        kept = {name: value for name, value in os.environ.items() if not unwanted.fullmatch(name)}
        return {
            **kept,
            "HF_ENDPOINT": self.endpoint,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_TOKEN": "fake",
            "HF_HOME": str(home),
            "NO_PROXY": "127.0.0.1",
        }

    def run(self, code: str, folder: Path, *arguments: str | Path) -> str:
        """What a client process prints that runs this code in `folder`, with seal_hf and the tests' own modules."""
        tests = Path(__file__).resolve().parent
        paths = os.pathsep.join([str(tests.parent), str(tests)])
        environment = {**self.environment(folder), "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self, repo_id: str, revision: str = "main", kind: str = "model") -> dict[str, bytes]:
        """Path -> content of a repository at a branch or commit. KeyError if there is no such repository."""
        repo = self.repos[kind, repo_id]
        return repo.snapshots[repo.commit_of(revision)]

    def commits(self, repo_id: str, kind: str = "model") -> list[str]:
        """Messages of all commits, the oldest first."""
        return self.repos[kind, repo_id].messages


def checked_path(path: str) -> str:
    """The path if it names a file inside a repository, else a refusal: a client would write where it points."""
    parts = path.split("/")
    if not path or "\\" in path or "\0" in path or path.startswith("~") or {"", ".", "..", ".git"} & set(parts):
        raise Refusal(400, f"invalid file name {path!r}")
    return path


def blob_id(content: bytes) -> str:
    """Git's name for the content, which the real Hub gives as ETag and as `oid`."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def front_matter(readme: str) -> dict[str, Any]:
    """The YAML between the first two `---` lines; ValueError if it is not a mapping."""
    found = re.match(r"---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(\r?\n|$)", readme, flags=re.DOTALL)
    try:
        data = yaml.safe_load(found.group(1)) if found else {}
    except yaml.YAMLError as error:
        raise ValueError(f"the metadata is not YAML: {error}") from error
    if not isinstance(data or {}, dict):
        raise ValueError("the metadata is not a mapping")
    return data or {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:  # noqa: N802 - http.server's names
        self._answer("GET")

    def do_HEAD(self) -> None:  # noqa: N802
        self._answer("HEAD")

    def do_POST(self) -> None:  # noqa: N802
        self._answer("POST")

    def _answer(self, method: str) -> None:
        # the body is read before anything can go wrong, or the connection could not be used again
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        try:
            with self.hub.lock:
                for methods, pattern, function in ROUTES:
                    found = re.fullmatch(pattern, url.path)
                    if found and method in methods:
                        if method == "POST" and not self.headers.get("Authorization"):
                            raise Refusal(401, "a token is needed to write")
                        arguments = {name: unquote(text or "") for name, text in found.groupdict().items()}
                        status, content, headers = 200, *function(self, **arguments)
                        break
                else:
                    self.hub.unknown_requests.append(f"{method} {self.path}")
                    raise Refusal(404, f"the fake Hub does not know {method} {url.path}")
        except Refusal as refusal:
            status, content = refusal.status, {"error": str(refusal), **refusal.body}
            headers = {"X-Error-Message": re.sub(r"[^ -~]+", " ", str(refusal)), **refusal.headers}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(data)

    def _json(self) -> dict[str, Any]:
        return json.loads(self.body or b"{}")

    def _repo(self, kind: str, repo_id: str) -> Repo:
        try:
            return self.hub.repos[kind.removesuffix("s") or "model", repo_id]
        except KeyError:
            raise Refusal(404, f"no repository {repo_id}", "RepoNotFound") from None

    def whoami(self):
        token = {"type": "access_token", "accessToken": {"displayName": "fake", "role": "write"}}
        return {"type": "user", "id": "0", "name": USER, "fullname": USER, "orgs": [], "auth": token}, {}

    def create_repo(self):
        wish = self._json()
        repo_id, kind = f"{wish.get('organization') or USER}/{wish['name']}", wish.get("type") or "model"
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id) or ".." in repo_id:
            raise Refusal(400, f"invalid repository name {repo_id!r}")
        answer = {"url": f"{self.hub.endpoint}/{'' if kind == 'model' else kind + 's/'}{repo_id}", "name": repo_id}
        if (kind, repo_id) in self.hub.repos:
            raise Refusal(409, "You already created this repo", body=answer)  # the client reads the URL from it too
        repo = self.hub.repos[kind, repo_id] = Repo({}, {})
        repo.add_commit("main", {}, "initial commit")
        return answer, {}

    def validate_yaml(self):
        try:
            front_matter(self._json()["content"])
        except ValueError as error:
            raise Refusal(400, str(error), body={"errors": [{"message": str(error)}], "warnings": []}) from None
        return {"errors": [], "warnings": []}, {}

    def repo_info(self, kind: str, repo_id: str, revision: str):
        repo = self._repo(kind, repo_id)
        commit = repo.commit_of(revision or "main")
        files = repo.snapshots[commit]
        card = front_matter(files.get("README.md", b"").decode())
        info = {"id": repo_id, "modelId": repo_id, "author": repo_id.split("/")[0], "sha": commit, "private": False}
        info |= {"gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": card.get("tags") or []}
        info |= {"siblings": [{"rfilename": path} for path in sorted(files)], "cardData": card}
        return info | {key: card[key] for key in ("pipeline_tag", "library_name") if key in card}, {}

    def tree(self, kind: str, repo_id: str, revision: str, folder: str):
        repo = self._repo(kind, repo_id)
        files = repo.snapshots[repo.commit_of(revision)]
        below = f"{folder.strip('/')}/".lstrip("/")
        inside = [path for path in sorted(files) if path.startswith(below)]
        if below and not inside:
            raise Refusal(404, f"no folder {folder}", "EntryNotFound")
        recursive = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        folders = {str(parent) for path in inside for parent in Path(path).parents if str(parent) not in (".", folder)}
        names = sorted(folders) + inside
        if not recursive:
            names = [name for name in names if "/" not in name[len(below) :]]
        return [_entry(name, files) for name in names if name.startswith(below)], {}

    def paths_info(self, kind: str, repo_id: str, revision: str):
        repo = self._repo(kind, repo_id)
        files = repo.snapshots[repo.commit_of(revision)]
        is_json = "json" in self.headers.get("Content-Type", "")
        paths = self._json()["paths"] if is_json else parse_qs(self.body.decode()).get("paths", [])
        known = [path for path in paths if path in files or any(name.startswith(f"{path}/") for name in files)]
        return [_entry(path, files) for path in known], {}

    def refs(self, kind: str, repo_id: str):
        branches = self._repo(kind, repo_id).branches.items()
        named = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit} for name, commit in branches]
        return {"branches": named, "converts": [], "tags": []}, {}

    def create_branch(self, kind: str, repo_id: str, revision: str):
        repo = self._repo(kind, repo_id)
        if revision in repo.branches:
            raise Refusal(409, f"there is a branch {revision} already")
        repo.branches[revision] = repo.commit_of(self._json().get("startingPoint") or "main")
        return {}, {}

    def preupload(self, kind: str, repo_id: str, revision: str):
        self._repo(kind, repo_id).commit_of(revision)
        paths = [checked_path(file["path"]) for file in self._json()["files"]]
        return {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}, {}

    def commit(self, kind: str, repo_id: str, revision: str):
        repo = self._repo(kind, repo_id)
        if revision not in repo.branches:
            raise Refusal(404, f"no branch {revision}", "RevisionNotFound")
        files = dict(repo.snapshots[repo.branches[revision]])
        message = ""
        for line in self.body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, repo.branches[revision]):
                    raise Refusal(412, "the branch has moved on")
            elif key == "file":
                files[checked_path(value["path"])] = base64.b64decode(value["content"])
            elif key in ("deletedFile", "deletedFolder"):
                path = value["path"].rstrip("/")
                gone = [name for name in files if name == path or name.startswith(f"{path}/")]
                if not gone:
                    raise Refusal(404, f"no file {path}", "EntryNotFound")
                for name in gone:
                    del files[name]
            else:
                raise Refusal(400, f"the fake Hub takes no {key}")
        commit = repo.add_commit(revision, files, message)
        return {"success": True, "commitOid": commit, "commitUrl": f"{self.hub.endpoint}/{repo_id}/commit/{commit}"}, {}

    def resolve(self, kind: str, repo_id: str, revision: str, path: str):
        repo = self._repo(kind, repo_id)
        commit = repo.commit_of(revision)
        headers = {"X-Repo-Commit": commit}
        content = repo.snapshots[commit].get(checked_path(path))
        if content is None:
            raise Refusal(404, f"no file {path}", "EntryNotFound", headers)
        return content, {**headers, "ETag": f'"{blob_id(content)}"', "Content-Type": "application/octet-stream"}


def _entry(name: str, files: dict[str, bytes]) -> dict[str, Any]:
    if name in files:
        return {"type": "file", "path": name, "size": len(files[name]), "oid": blob_id(files[name])}
    return {"type": "directory", "path": name, "size": 0, "oid": hashlib.sha1(name.encode()).hexdigest()}


_REPO = r"/api/(?P<kind>models|datasets)/(?P<repo_id>[^/]+/[^/]+)"
_REVISION = r"(?P<revision>[^/]+)"
ROUTES = [
    (("GET",), r"/api/whoami-v2", _Handler.whoami),
    (("POST",), r"/api/repos/create", _Handler.create_repo),
    (("POST",), r"/api/validate-yaml", _Handler.validate_yaml),
    (("GET",), rf"{_REPO}/refs", _Handler.refs),
    (("GET",), rf"{_REPO}(?:/revision/{_REVISION})?", _Handler.repo_info),
    (("GET",), rf"{_REPO}/tree/{_REVISION}(?P<folder>/.*)?", _Handler.tree),
    (("POST",), rf"{_REPO}/paths-info/{_REVISION}", _Handler.paths_info),
    (("POST",), rf"{_REPO}/branch/{_REVISION}", _Handler.create_branch),
    (("POST",), rf"{_REPO}/preupload/{_REVISION}", _Handler.preupload),
    (("POST",), rf"{_REPO}/commit/{_REVISION}", _Handler.commit),
    (
        ("GET", "HEAD"),
        rf"/(?:(?P<kind>datasets)/)?(?P<repo_id>[^/]+/[^/]+)/resolve/{_REVISION}/(?P<path>.+)",
        _Handler.resolve,
    ),
]
