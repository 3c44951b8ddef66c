"""Who may ask for the page, and how much a request may bring: one middleware around all of Gradio's addresses.

It needs starlette, which the extra `demo` brings, so it is imported when a page is served.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.formparsers import MultiPartException
from starlette.responses import PlainTextResponse

from .files import IN_USE

MB = 1_000_000
MOST_FILES = 2_000
STEPS = 50  # looks at the disk while as many bytes arrive as there is room for
PAUSE = 2  # seconds between two looks at the disk while nothing arrives
SLACK = 1  # seconds by which the times of files may differ from the clock


class Refused(MultiPartException):
    """A body is too large, or was cut off. Raised where Gradio reads it, so that Gradio removes what it has written."""


@dataclass(eq=False)
class Body:
    """The body of a request, while it arrives.

    Attributes:
        most: bytes that it may have.
        taken: bytes that have arrived.
        begun: when the request came, in seconds of the clock.
    """

    most: int
    taken: int = 0
    begun: float = field(default_factory=time.time)


class Uploads:
    """Files in a folder, with a limit for all of them together. Where newer ones need room, the oldest are removed.

    Gradio writes what arrives into files directly in the folder, and moves each into a folder of its own at its end.

    Args:
        folder: of uploads and results.
        limit: bytes of all files, and of all bodies that are arriving.
    """

    def __init__(self, folder: Path, limit: int):
        self.folder, self.limit = folder, limit
        self.step = limit // STEPS  # bytes that arrive between two looks at the disk
        self.arriving: set[Body] = set()
        self._since = 0  # bytes that have arrived since the last look at the disk

    def begin(self, most: int, declared: int) -> Body:
        """Take notice of a request that begins, and make room for what it declares.

        Args:
            most: bytes that its body may have.
            declared: bytes that its header names; 0 if none.

        Raises:
            Refused: there are too many.
        """
        body = Body(min(most, self.limit))
        if declared > body.most:
            raise self._too_large(body)
        if declared:
            self.make_room(declared)
        return body

    def take(self, body: Body, count: int) -> None:
        """Take notice of the next bytes of a body.

        Raises:
            Refused: there are too many.
        """
        if not count:
            return
        self.arriving.add(body)
        body.taken += count
        self._since += count
        if body.taken > body.most:
            raise self._too_large(body)
        if sum(each.taken for each in self.arriving) > self.limit:
            raise Refused(f"Too many uploads at once: together they may have {self.limit // MB} MB. Try again soon.")
        if self._since > self.step:
            self.make_room(self.step)

    def end(self, body: Body) -> None:
        """Note that the request is answered, so that its bytes no longer count as arriving."""
        self.arriving.discard(body)

    def _too_large(self, body: Body) -> Refused:
        what = "The files are" if body.most == self.limit else "The input is"
        return Refused(f"{what} larger than {body.most // MB} MB. Give less at once.")

    def make_room(self, spare: int = 0) -> None:
        """Remove the oldest files until all of them take at most the limit less `spare` bytes.

        Args:
            spare: bytes that are about to arrive.

        Raises:
            Refused: `spare` alone is above the limit.
        """
        self._since, size, count = 0, 0, 0
        first = min((body.begun for body in self.arriving), default=math.inf) - SLACK
        removable, seen = [], set()
        for file, status in files_below(str(self.folder)):
            size, count = size + (status.st_size if status.st_ino not in seen else 0), count + 1
            seen.add(status.st_ino)
            folder = os.path.dirname(file)
            may_be_arriving = folder == str(self.folder) and status.st_mtime >= first
            if not may_be_arriving and f"{os.sep}{IN_USE}{os.sep}" not in file:
                removable.append((status.st_mtime, status.st_size if status.st_nlink == 1 else 0, file))
        for _, freed, file in sorted(removable):
            if size <= self.limit - spare and count <= MOST_FILES:
                break
            with suppress(OSError):  # another thread has removed it, or the folder holds other files
                size, count = size - freed, count - 1
                os.remove(file)
                os.rmdir(os.path.dirname(file))
        if size > self.limit or count > MOST_FILES:
            raise Refused("There is no room for more files now. Try again soon, with fewer or smaller ones.")

    async def keep_room(self) -> None:
        """Make room again and again, since results take some too."""
        while True:
            with suppress(Refused):
                self.make_room()
            await asyncio.sleep(PAUSE)


def files_below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of each file, while others may move and remove some."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(entry.path)
            else:
                with suppress(FileNotFoundError):
                    yield entry.path, entry.stat(follow_symlinks=False)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OURS = ("same-origin", "none")  # values of Sec-Fetch-Site: the page itself asks, or the user typed the address
TYPED = 1_000_000  # bytes of a request that is no upload: the values of the fields
# The browser asks no other server for anything, whatever the page holds.
POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; form-action 'self'; object-src 'none'"
)


@dataclass
class Access:
    """Under which addresses browsers know the page, and where it may be shown.

    Attributes:
        names: hosts that a request may name; None allows all.
        public: addresses of a proxy before the server, such as `https://me-mine.hf.space`.
        local: hosts without TLS. All others are reached by https.
        framed_by: the website that may show the page in a frame; empty for none.
        loads_nothing: forbid the browser to load anything from elsewhere.
    """

    names: set[str] | None
    public: set[str] = field(default_factory=set)
    local: Iterable[str] = ()
    framed_by: str = ""
    loads_nothing: bool = True

    def open_to(self, address: str) -> None:
        """Let the page also be known under a public address."""
        self.public.add(address)
        if self.names is not None:
            self.names.add(urlsplit(address).netloc)

    def refusal(self, scope: Message) -> tuple[int, str] | None:
        """The status and the reason for which a request is refused; None if it may pass.

        A request with neither Origin nor Sec-Fetch-Site passes: it comes from a program such as curl, since browsers
        send one or both where another website asks for something.
        """
        found: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        host = ",".join(found.get("host", [])).lower()
        name, _, port = host.partition(":")
        if self.names is not None and not (name in self.names and (port.isdecimal() or host == name)):
            return 400, f"This page is at {' and '.join(sorted(self.names))} alone, not at the host of this request."
        own = {*self.public, f"{'http' if name in self.local else 'https'}://{host}"}
        if not own.issuperset(origin.lower() for origin in found.get("origin", [])):
            return 403, "Another website asks for this. Only the page itself may."
        if not all(site in OURS for site in found.get("sec-fetch-site", [])) and not self._is_opened(scope, found):
            return 403, "Another website asks for this. Open the page in a tab of its own."
        return None

    def _is_opened(self, scope: Message, found: dict[str, list[str]]) -> bool:
        """True if a link of another website leads here."""
        places = ("document", "iframe") if self.framed_by else ("document",)
        return (
            scope.get("method") in ("GET", "HEAD")
            and found.get("sec-fetch-mode") == ["navigate"]
            and found.get("sec-fetch-dest") in [[place] for place in places]
        )

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of every response."""
        policy = [POLICY] * self.loads_nothing + [f"frame-ancestors {self.framed_by or chr(39) + 'none' + chr(39)}"]
        found = [(b"content-security-policy", "; ".join(policy).encode())]
        return found if self.framed_by else [*found, (b"x-frame-options", b"DENY")]


class Guard:
    """ASGI middleware that refuses what other websites ask for, bounds all bodies, and sends headers with each answer.

    Args:
        app: what answers the requests that pass.
        access: who may ask.
        uploads: where bodies are counted.
    """

    def __init__(self, app: App, access: Access, uploads: Uploads):
        self.app, self.access, self.uploads = app, access, uploads

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        refused = self.access.refusal(scope)
        if scope["type"] == "websocket":
            return await (
                send({"type": "websocket.close", "code": 1008}) if refused else self.app(scope, receive, send)
            )

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.access.headers]
            await send(message)

        if refused:
            status, reason = refused
            return await PlainTextResponse(f"{reason}\n", status)(scope, receive, answer)
        await self._bounded(scope, receive, answer)

    async def _bounded(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; 413 if its body is too large, or if there is no room for it."""
        is_upload = scope["path"].rstrip("/").endswith("/upload")
        lengths = [value for name, value in scope["headers"] if name == b"content-length" and value.isdigit()]
        is_complete = has_begun = False
        refused: Refused | None = None

        async def counted() -> Message:
            nonlocal is_complete, refused
            message = await receive()
            try:
                if message["type"] == "http.request":
                    self.uploads.take(body, len(message.get("body", b"")))
                    is_complete = not message.get("more_body", False)
                elif body.taken and not is_complete:
                    raise Refused("The upload was cut off.")
            except Refused as error:
                refused = error
                raise
            return message

        async def unless_refused(message: Message) -> None:
            nonlocal has_begun
            if has_begun or not refused:
                has_begun = True
                await send(message)

        try:
            body = self.uploads.begin(self.uploads.limit if is_upload else TYPED, max(map(int, lengths), default=0))
        except Refused as error:
            return await PlainTextResponse(f"{error.message}\n", 413)(scope, receive, send)
        try:
            await self.app(scope, counted, unless_refused)
        except Refused:
            pass  # answered below
        finally:
            self.uploads.end(body)
        if refused and not has_begun:
            await PlainTextResponse(f"{refused.message}\n", 413)(scope, receive, send)
