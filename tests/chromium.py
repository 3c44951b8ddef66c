"""A headless Chromium for tests of pages, driven over its DevTools protocol through two pipes."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe".split()
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)  # it asks for nothing
PATIENCE = 120  # seconds until a wait fails; a page takes about one


def found_chromium():
    """Its path; the test is skipped where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the path")
    return path


class Chromium:
    """A browser with one page.

    Args:
        folder: for its profile.

    Attributes:
        requests: the addresses that the page asked for.
        said: the errors in its console.
    """

    def __init__(self, folder: Path):
        (read, theirs_out), (theirs_in, write) = os.pipe(), os.pipe()
        shell = f'exec "$@" 3</dev/fd/{theirs_in} 4>/dev/fd/{theirs_out}'
        words = [found_chromium(), *FLAGS, *QUIET, f"--user-data-dir={folder}", "about:blank"]
        log = open(folder / "chromium.log", "wb")
        self.process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *words], pass_fds=(theirs_in, theirs_out), stdout=log, stderr=log
        )
        for end in (theirs_in, theirs_out, log):
            os.close(end) if isinstance(end, int) else end.close()
        self.reading, self.writing = open(read, "rb"), open(write, "wb", buffering=0)
        self.last, self.session, self.requests, self.said = 0, None, [], []
        pages = self.send("Target.getTargets")["targetInfos"]
        page = next(page["targetId"] for page in pages if page["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "DOM"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reading.close()
        self.writing.close()

    def send(self, method, **params):
        """The result of a command of the protocol."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writing.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _message(self):
        parts = bytearray()
        while (byte := self.reading.read(1)) != b"\0":
            assert byte, "the browser ended"
            parts += byte
        return bytes(parts)

    def _note(self, event):
        params = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.said.append(params["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.said.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))

    def open(self, url, width=1280, height=900, scheme="light"):
        """Load a page in a window of this size, `scheme` light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.send("Page.navigate", url=url)

    def ask(self, script):
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script):
        """The value of an expression, as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.ask(script)):
            assert time.monotonic() < end, f"never true: {script}\n{self.ask('document.body.innerText')}"
            time.sleep(0.05)
        return value

    def type(self, text):
        """Into what has the focus."""
        self.send("Input.insertText", text=text)

    def give_file(self, selector, *files):
        """Choose files in an <input type=file>."""
        root = self.send("DOM.getDocument", depth=-1)["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])
