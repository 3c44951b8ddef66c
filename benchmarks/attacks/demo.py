"""What strangers send to `seal-hf demo`: requests of other websites, other names, large, hostile and many uploads.

A second process sends each request, with a right one before and after it, and ends the demo with SIGTERM."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import samples
from .engine import Case

UPLOAD = "/gradio_api/upload"
PATHS = ("/", "/config", "/gradio_api/info", "/gradio_api/file=/etc/hosts", "/gradio_api/file=../bait/secret", "/login")
FAULT = Path("..", "fault.txt")
STOLEN = b"text\nstolen"


def asked(port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, dict, bytes]:
    """Status, headers and text of an answer. The Origin `{own}` is the demo's."""
    own = {key: value.format(own=f"http://127.0.0.1:{port}", port=port) for key, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body or None, own)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    except (ConnectionError, http.client.HTTPException):  # closed without an answer
        return 0, {}, b""
    finally:
        connection.close()


def form(content: bytes, name: str = "a.csv") -> tuple[dict[str, str], bytes]:
    """Headers and body of an upload."""
    head = f'--b\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
    return {"Content-Type": "multipart/form-data; boundary=b"}, head + content + b"\r\n--b--\r\n"


def refused(headers: dict[str, str]) -> Callable[[int], str | None]:
    """That nothing is answered to these headers."""

    def send(port: int) -> str | None:
        kind, body = form(STOLEN)
        found = {path: asked(port, "GET", path, headers) for path in PATHS}
        found[UPLOAD] = asked(port, "POST", UPLOAD, {**kind, **headers}, body)
        wrong = [path for path, (status, _, _) in found.items() if status not in (0, 400, 403)]
        written = [file for file in Path("..", "tmp").rglob("*") if file.is_file() and STOLEN in file.read_bytes()]
        return f"{wrong or written} was answered" if wrong or written else None

    return send


def framed(port: int) -> str | None:
    _, headers, _ = asked(port, "GET", "/", {})
    fine = headers.get("x-frame-options") == "DENY" and "frame-ancestors" in headers.get("content-security-policy", "")
    return None if fine else f"the page can be framed: {headers}"


def uploaded(content: bytes, name: str = "a.csv", most: int = 8 << 20) -> Callable[[int], str | None]:
    """That an upload leads to no file outside the temporary folder, and to none beyond the limit."""

    def send(port: int) -> str | None:
        kind, body = form(content, name)
        status, _, text = asked(port, "POST", UPLOAD, kind, body)
        outside = [*Path().rglob("*evil*"), *Path("..").glob("*evil*"), *Path("/tmp").glob("evil.csv")]
        large = len(content) > most and status not in (0, 413)
        return f"{status}, {outside}, {text[:80]!r}" if outside or large or status >= 500 else None

    return send


def read(path: str) -> Callable[[int], str | None]:
    """That no file of this machine is read."""

    def send(port: int) -> str | None:
        status, _, text = asked(port, "GET", path, {})
        return f"{path} was read" if b"a secret" in text or b"localhost" in text and status == 200 else None

    return send


def at_once(port: int) -> str | None:
    kind, body = form(b"text\n" + b"good\n" * 1000)
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda _: asked(port, "POST", UPLOAD, kind, body)[0], range(96)))
    return None if set(found) <= {0, 200, 413, 429, 503} else f"statuses {sorted(set(found))}"


REQUESTS: dict[str, Callable[[int], str | None]] = {
    **{
        f"Origin {origin}": refused({"Origin": origin})
        for origin in (
            "http://evil.example",
            "http://127.0.0.1:3000",
            "null",
            "{own}.evil.example",
            "https://127.0.0.1",
        )
    },
    "a request across sites": refused({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}),
    "a request of another port": refused({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}),
    **{f"Host {host}": refused({"Host": host}) for host in ("evil.example", "127.0.0.1.evil.example", "[::2]")},
    "a frame": framed,
    "a large upload": uploaded(b"x" * (9 << 20)),
    "a name that leads out": uploaded(b"text\ngood\n", "../../../case/evil.csv"),
    "an absolute name": uploaded(b"text\ngood\n", "/evil.csv"),
    "a name with a NUL": uploaded(b"text\ngood\n", "evil\0.csv"),
    "a long name": uploaded(b"text\ngood\n", "evil" + "a" * 5000),
    "no upload": uploaded(b""),
    **{
        f"the file {path}": read(f"/gradio_api/file={path}")
        for path in ("/etc/hosts", "../bait/secret", "..%2f..%2fbait%2fsecret")
    },
    "many at once": at_once,
}


def client(port: int, request: Callable[[int], str | None], demo: int) -> None:
    """Sends a request when the page is there; writes the fault, if there is one, and ends the demo."""
    fault = "the page did not come"
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and asked(port, "GET", "/", {})[0] != 200:
            time.sleep(0.1)
        if time.monotonic() < until:
            fault = request(port) or ("" if asked(port, "GET", "/", {})[0] == 200 else "the page is gone afterwards")
    except Exception as error:  # a fault of the demo or of this program: both are shown
        fault = f"{type(error).__name__}: {error}"
    FAULT.write_text(fault)
    os.kill(demo, signal.SIGTERM)
    os._exit(0)


def check() -> str | None:
    left = [str(file) for file in Path("..", "tmp").rglob("*") if file.is_file()]
    return FAULT.read_text() or (f"left after SIGTERM: {left[:3]}" if left else None)


def cases(models: Path) -> Iterator[Case]:
    for name, request in REQUESTS.items():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = f"demo --model {models}/texts --port {port} --max_upload 8".split()

        def prepare(draw: random.Random, request=request, port: int = port) -> None:
            samples.write(samples.data())
            Path("..", "bait").mkdir()
            Path("..", "bait", "secret").write_text("a secret\n")
            demo = os.getpid()
            sys.stdout.flush()
            if os.fork() == 0:
                client(port, request, demo)

        ends = (143, "refused or kept inside; the page is there, and SIGTERM leaves nothing")
        yield Case("demo", name, prepare, words, ("terminated",), check, seconds=90, ends=ends)
