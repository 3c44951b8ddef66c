"""Who may ask the server, and how much it takes: one middleware around all of Gradio's addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse

from .uploads import Refused, Uploads

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
