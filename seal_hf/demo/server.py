"""The server of the page: on this machine alone, and without telemetry."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradio import Blocks

LOCALHOST = "127.0.0.1"
STYLE = Path(__file__).with_name("style.css")
# The browser asks no other server for anything, whatever the page holds.
POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; form-action 'self'; object-src 'none'"
)
Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]


class OwnHost:
    """Middleware that sends `POLICY` with every response."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        async def with_policy(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, with_policy if scope["type"] == "http" else send)


def without_telemetry(folder: str) -> None:
    """Settings of Gradio, made before it is imported. Uploads and results are in `folder`."""
    settings = {"ANALYTICS_ENABLED": "False", "RUN_HISTORY": "False", "TEMP_DIR": folder}
    os.environ.update({f"GRADIO_{name}": value for name, value in settings.items()})


def check_port(port: int | None) -> None:
    """Raises ValueError for a port that another program has."""
    if port is None:
        return
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOCALHOST, port))
    except (OSError, OverflowError) as error:
        raise ValueError(f"`port` is {port}, which cannot be used ({error}). Give another one, or none.") from error


def start(page: Blocks, *, share: bool = False, port: int | None = None, max_upload: int = 25) -> str:
    """Serve a page; returns its address at once.

    Args:
        share: also at a public address, through Gradio's tunnel; for this, the page loads Gradio's scripts from its
            own server.
        port: on this machine; default: the first free one from 7860 on.
        max_upload: largest file, in MB.
    """
    import gradio as gr
    from gradio.utils import get_space
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    # a website whose name leads to this machine cannot read the page; a Space has a name of its own
    hosts = [] if get_space() else [Middleware(TrustedHostMiddleware, allowed_hosts=[LOCALHOST, "localhost"])]
    fonts: dict[str, Any] = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    theme = gr.themes.Default(primary_hue="blue", **fonts).set(block_info_text_color="*neutral_500")
    _, url, _ = page.launch(
        prevent_thread_lock=True,
        quiet=True,
        share=share,
        server_name=None if get_space() else LOCALHOST,  # a Space names its own
        server_port=port,
        max_file_size=max_upload * 1_000_000,
        enable_monitoring=False,
        ssr_mode=False,
        theme=theme,
        css_paths=STYLE,
        footer_links=[],
        app_kwargs={} if share else {"middleware": [*hosts, Middleware(OwnHost)]},
    )
    return url
