"""`seal-hf demo` as a server: with Gradio's own client, and in a headless Chromium. Oracles: what the views answer, and
the addresses that the browser asks for."""

import asyncio
import csv
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from chromium import Chromium, found_chromium
from predicting import trained_on_texts
from test_demo import EVIL, view_of

from seal_hf.lab.demo.program import LOCALHOST, access_to, build, demo_flags, main
from seal_hf.lab.demo.views import OWN

if find_spec("gradio") is None:
    pytest.skip("the page needs the extra demo", allow_module_level=True)
from seal_hf.lab.demo.guard import Guard, Uploads

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The view of a net of texts, the address of its page, the program that serves it, and a folder with a file."""
    folder = tmp_path_factory.mktemp("texts")
    _, model, rows = trained_on_texts(folder)
    with open(folder / "new.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], [EVIL], *[[text] for text in rows["text"][:9]]])
    (folder / "tmp").mkdir()
    words = [sys.executable, "-m", "seal_hf", "demo", "--model", str(model), "--max_upload", "1"]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(ROOT)}
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as program:
        signal.signal(signal.SIGINT, heard)
        line = program.stdout.readline()
        yield SimpleNamespace(
            view=view_of(["--model", str(model)]), url=line.split(" at ")[1].split()[0], program=program, folder=folder
        )
        program.send_signal(signal.SIGINT)


# --- the server ------------------------------------------------------------------------------------------------------


def test_the_client_gets_what_the_view_answers(served):
    from gradio_client import Client, handle_file

    view, folder = served.view, served.folder
    client = Client(served.url, verbose=False, analytics_enabled=False, download_files=str(folder / "got"))
    assert served.url.startswith(f"http://{LOCALHOST}:")
    for decoder, threshold, asked in (("expected_f1", 0.5, "expected_f1"), (OWN, 0.3, "0.3")):
        found = client.predict(decoder, threshold, EVIL, api_name="/predict")
        assert found == view.answer(EVIL, asked)[0] and "<script>" not in found
    file, said, table, *_ = client.predict(
        "threshold", 0.5, handle_file(folder / "new.csv"), False, api_name="/predict_file"
    )
    with open(file["value"] if isinstance(file, dict) else file, encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 10 and rows[0]["text"] == EVIL
    said = said["value"] if isinstance(said, dict) else said
    assert "10 rows, decided by threshold." in said and "<script>" not in str(table)
    with pytest.raises(Exception, match="There is no text"):
        client.predict("fixed", 0.5, " ", api_name="/predict")
    with pytest.raises(Exception, match="Upload the file itself. The page downloads nothing"):
        client.predict("fixed", 0.5, handle_file("http://localhost:9/x.csv"), False, api_name="/predict_file")
    with open(folder / "large.csv", "w", encoding="utf-8") as lines:
        lines.write("text\n" + 120_000 * "good film\n")
    with pytest.raises(Exception, match="413|larger|exceed"):
        client.predict("fixed", 0.5, handle_file(folder / "large.csv"), False, api_name="/predict_file")
    assert [path.name for path in (folder / "tmp").rglob("large.csv")] == []


def test_the_page_names_no_server_that_it_loads_from(served):
    with urllib.request.urlopen(served.url) as answer:
        policy, text = answer.headers["content-security-policy"], answer.read().decode()
    assert "default-src 'self'" in policy and "http" not in policy
    assert "fonts.googleapis" not in text
    config = json.loads(text.split("window.gradio_config = ")[1].split(";</script>")[0])
    assert config["analytics_enabled"] is False and config["stylesheets"] == []


def test_no_website_may_show_the_page_in_a_frame(served):
    for status, headers in ((200, {}), (403, {"Origin": "http://evil.example"})):
        found, answer, _ = asked(served.url, "GET", "/", headers)
        assert found == status and answer["x-frame-options"] == "DENY"
        assert answer["content-security-policy"].endswith("; frame-ancestors 'none'")


# --- who may ask -----------------------------------------------------------------------------------------------------


def asked(url, method, path, headers=(), body=None):
    """Status, headers and text of an answer; `{own}` in a header stands for the page's address."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    own = url.rstrip("/")
    try:
        connection.request(
            method, path, body, {name: value.format(own=own, port=own[-4:]) for name, value in dict(headers).items()}
        )
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def form(*contents):
    """A body with these files, and its header."""
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="files"; filename="{i}.csv"\r\n\r\n'.encode() + content
        for i, content in enumerate(contents)
    ]
    return b"\r\n".join([*parts, b"--b--\r\n"]), {"Content-Type": "multipart/form-data; boundary=b"}


ELSEWHERE = {
    "website": {"Origin": "http://evil.example"},
    "other port": {"Origin": f"http://{LOCALHOST}:3000"},
    "other name": {"Origin": "http://localhost:{port}"},
    "other scheme": {"Origin": f"https://{LOCALHOST}:{{port}}"},
    "file": {"Origin": "null"},
    "part of the name": {"Origin": "{own}.evil.example"},
    "several": {"Origin": "{own}, http://evil.example"},
    "fetched": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "fetched by another port": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    "frame": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
}
PATHS = ("upload", "queue/join", "queue/data", "run/predict", "call/predict", "component_server", "reset", "info")
PATHS = (*(f"/gradio_api/{path}" for path in PATHS), "/gradio_api/file=/etc/hosts", "/config", "/login", "/")


@pytest.mark.parametrize("headers", ELSEWHERE.values(), ids=[*ELSEWHERE])
def test_other_origins_get_nothing_whatever_they_ask_for(served, headers):
    for path in PATHS:
        for method in ("GET", "POST", "HEAD", "OPTIONS"):
            status, answer, text = asked(served.url, method, path, headers)
            assert status == 403 and text in ("", *REFUSALS), (method, path)
            assert not any(name.startswith("access-control") for name in answer)


REFUSALS = tuple(
    f"Another website asks for this. {what}\n"
    for what in ("Only the page itself may.", "Open the page in a tab of its own.")
)


def test_an_upload_from_another_origin_is_not_written(served):
    body, kind = form(b"text\nstolen")
    for origin, status in (("http://evil.example", 403), ("{own}", 200)):
        found, _, text = asked(served.url, "POST", "/gradio_api/upload", {**kind, "Origin": origin}, body)
        written = [file.read_text() for file in (served.folder / "tmp").rglob("0.csv")]
        assert found == status and (written == ["text\nstolen"]) == (status == 200)
    assert json.loads(text)[0].endswith("/0.csv")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "{own}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Origin": "http://localhost:{port}", "Host": "localhost:{port}"},
    ],
    ids=["curl", "page", "typed", "link", "other name"],
)
def test_the_page_itself_links_and_other_programs_are_answered(served, headers):
    assert asked(served.url, "GET", "/", headers)[0] == 200


def test_a_link_of_another_website_changes_nothing(served):
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert asked(served.url, "POST", "/gradio_api/queue/join", opened, "{}")[0] == 403


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1.evil.example:1", "localhost:1:2", "evil@localhost", "localhost."]
)
def test_the_page_answers_to_the_names_of_this_machine_alone(served, host):
    """A website whose name leads to this machine sends its own name."""
    status, _, text = asked(served.url, "GET", "/", {"Host": host})
    assert status == 400 and "at 127.0.0.1 and localhost alone" in text


# --- what it takes ---------------------------------------------------------------------------------------------------

MB = 1_000_000


def on_disk(served):
    return [file for file in (served.folder / "tmp").rglob("*") if file.is_file()]


def test_all_uploads_together_are_bounded_and_the_oldest_make_room(served):
    files = []
    for i in range(12):
        body, kind = form(bytes([i]) * (MB - 1))
        status, _, text = asked(served.url, "POST", "/gradio_api/upload", kind, body)
        assert status == 200
        files += json.loads(text)
        assert sum(file.stat().st_size for file in on_disk(served)) <= 8 * MB
    there = [Path(file).exists() for file in files]
    assert there == sorted(there) and 5 <= sum(there) < 12  # the newest ones


@pytest.mark.parametrize("chunked", [False, True])
def test_a_larger_upload_is_refused_with_a_line_and_leaves_nothing(served, chunked):
    body, kind = form(*[bytes([i]) * (MB - 1) for i in range(20, 29)])
    before = {file.name for file in on_disk(served)}
    parts = iter([body[i : i + 100_000] for i in range(0, len(body), 100_000)]) if chunked else body
    try:
        status, _, text = asked(served.url, "POST", "/gradio_api/upload", kind, parts)
        assert (status, text) == (413, "The files are larger than 8 MB. Give less at once.\n")
    except (BrokenPipeError, ConnectionResetError):  # it need not read the whole body
        pass
    assert {file.name for file in on_disk(served)} <= before


@pytest.mark.parametrize("path", ["upload", "queue/join"])
def test_bodies_that_arrive_together_are_bounded(served, path):
    """Nine of nearly 1 MB wait for their end, where there is room for eight."""
    body, kind = form(b"x" * (MB - 200))
    bodies = [socket.create_connection((LOCALHOST, urlsplit(served.url).port), timeout=60) for _ in range(9)]
    head = f"POST /gradio_api/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += f"Content-Type: {kind['Content-Type']}\r\nConnection: close\r\n\r\n"
    try:
        for each in bodies:
            each.sendall(head.encode() + body[:-10])
        first, *_ = select.select(bodies, [], [], 60)
        assert len(first) == 1 and b" 413 " in first[0].recv(100)
        for each in bodies:
            if each is not first[0]:
                each.sendall(body[-10:])
                answer = each.recv(100)
                assert answer and (b" 200 " in answer or path != "upload") and b" 413 " not in answer
    finally:
        for each in bodies:
            each.close()


def test_an_upload_that_is_cut_off_leaves_nothing(served):
    body, kind = form(b"y" * MB)
    with socket.create_connection((LOCALHOST, urlsplit(served.url).port), timeout=60) as connection:
        head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Content-Type: {kind['Content-Type']}\r\n\r\n".encode() + body[:-10])
        begun = until(lambda: [file for file in on_disk(served) if file.name.startswith("tmp")])
    until(lambda: not any(file.exists() for file in begun))


def until(asks):
    """What a question answers, as soon as it is true."""
    for _ in range(600):
        if found := asks():
            return found
        time.sleep(0.05)
    raise AssertionError("never true")


def test_what_is_typed_in_is_bounded_too(served):
    body = json.dumps({"data": ["fixed", 0.5, "a" * MB], "fn_index": 0, "session_hash": "x"})
    kind = {"Content-Type": "application/json"}
    status, _, text = asked(served.url, "POST", "/gradio_api/queue/join", kind, body)
    assert (status, text) == (413, "The input is larger than 1 MB. Give less at once.\n")


# --- at another address ----------------------------------------------------------------------------------------------


def guarded(access, headers, tmp_path):
    """Status and headers of an answer to GET by a server behind the guard."""
    answers = []

    async def server(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        answers.append(message)

    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": sent}
    asyncio.run(Guard(server, access, Uploads(tmp_path, MB))(scope, receive, send))
    return answers[0]["status"], dict(answers[0]["headers"])


def test_a_space_has_its_own_address_and_is_framed_by_the_hub_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACE_HOST", "me-mine.hf.space")
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    proxy = {"Host": "me-mine.hf.space"}
    for headers, status in (
        ({**proxy, **framed}, 200),
        ({**proxy, "Origin": "https://me-mine.hf.space", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "10.0.0.1:7860"}, 200),
        ({**proxy, "Origin": "http://me-mine.hf.space"}, 403),
        ({**proxy, "Origin": "https://huggingface.co"}, 403),
        ({**proxy, "Origin": "https://others-own.hf.space", "Sec-Fetch-Site": "cross-site"}, 403),
        ({**proxy, **framed, "Sec-Fetch-Mode": "no-cors"}, 403),
    ):
        found, answer = guarded(access_to(space=True), headers, tmp_path)
        assert found == status, headers
        assert answer[b"content-security-policy"].endswith(b"; frame-ancestors https://huggingface.co")
        assert b"x-frame-options" not in answer


def test_a_shared_page_is_known_under_its_public_address_too(tmp_path):
    access = access_to(share=True)
    access.open_to("https://abc.gradio.live")
    for host, origin, status in (
        ("abc.gradio.live", "https://abc.gradio.live", 200),
        ("abc.gradio.live", "https://other.gradio.live", 403),
        ("other.gradio.live", "https://other.gradio.live", 400),
        ("127.0.0.1:7860", "http://127.0.0.1:7860", 200),
        ("127.0.0.1:7860", "http://evil.example", 403),
    ):
        found, answer = guarded(access, {"Host": host, "Origin": origin}, tmp_path)
        assert found == status, (host, origin)
        assert answer[b"content-security-policy"] == b"frame-ancestors 'none'"


def test_the_flag_of_a_space_is_given_there_and_nowhere_else(tmp_path, monkeypatch):
    words = ["--model", str(tmp_path), "--space", "true"]
    with pytest.raises(ValueError, match="`space` is for a Space of the Hub, which sets SPACE_HOST; it is not set"):
        main(words)
    monkeypatch.setenv("SPACE_HOST", "me-mine.hf.space")
    with pytest.raises(ValueError, match="this is the Space https://me-mine.hf.space: .* launch.*space=True"):
        main(words[:2])
    with pytest.raises(ValueError, match="`share` is for a page on this machine"):
        main([*words, "--share", "true"])


# --- a browser -------------------------------------------------------------------------------------------------------

SLIDER = "document.querySelector('input[type=range]')"


def press(browser, name):
    """The last visible button of that name: tabs are there twice, once to be measured."""
    buttons = f"[...document.querySelectorAll('button')].filter(b => b.innerText.trim() == {name!r} && b.offsetParent)"
    browser.ask(f"{buttons}.at(-1).click()")


def test_in_a_browser_the_page_answers_shows_code_as_text_and_asks_no_other_server(served, tmp_path):
    found_chromium()
    url, folder = served.url, served.folder
    with Chromium(tmp_path) as browser:
        for width, scheme in ((1280, "light"), (400, "dark")):
            browser.open(url, width, scheme=scheme)
            browser.wait(
                "!!document.querySelector('textarea')?.offsetParent && document.body.innerText.includes('Predict')"
            )
            browser.ask("document.querySelector('textarea').focus()")
            browser.type("good film")
            press(browser, "Predict")
            browser.wait("document.querySelectorAll('.seal .bars li').length == 4")
            assert browser.ask("document.querySelectorAll('.energies tbody tr').length") == 6
            assert browser.ask("getComputedStyle(document.querySelector('.bars')).listStyleType") == "none"  # our style
            browser.ask(f"{SLIDER}.value = 0.75; {SLIDER}.dispatchEvent(new Event('input', {{bubbles: true}}))")
            probabilities, decided = served.view.decide("good film", served.view.under("0.75"))
            browser.wait(f"document.querySelectorAll('.seal .chip').length == {decided.sum()}")
            assert 0 < decided.sum() < len(decided) and (probabilities >= 0.75).tolist() == decided.tolist()
            assert browser.ask("document.querySelector('[aria-label=Decoder]').value") == OWN
            press(browser, "A file")
            browser.wait("[...document.querySelectorAll('input[type=file]')].length > 0")
            browser.give_file("input[type=file]", folder / "new.csv")
            browser.wait("document.body.innerText.includes('new.csv')")
            press(browser, "Predict")
            browser.wait("document.querySelectorAll('.rows tbody tr').length == 10")
            assert browser.ask("document.querySelector('.rows tbody tr').innerText").count("<script>") == 1
            assert browser.ask("document.querySelectorAll('.rows script, .rows img').length") == 0
            wide = browser.ask("document.documentElement.scrollWidth")
            assert wide <= width, "nothing sticks out"
        assert {ask.split("/")[2] for ask in browser.requests if ask.startswith("http")} == {url.split("/")[2]}
        aborted = ("AbortError", "errored out")  # of Gradio's own event stream, when a busy machine is slow to answer
        assert [said for said in browser.said if not any(word in said for word in aborted)] == []


# --- the command -----------------------------------------------------------------------------------------------------


def test_mistakes_end_with_a_line(tmp_path, monkeypatch):
    for words, message in (
        (["--model", str(tmp_path)], "holds no model"),
        (["--model", str(tmp_path / "none")], "no such folder"),
        (["--model", "x", "--prot", "1"], "unknown command-line argument '--prot'. Did you mean '--port'"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            main(words)
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    with pytest.raises(ValueError, match="another kind of model, GPT2LMHeadModel, which predicts neither"):
        build(str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs Gradio: pip install "seal_hf\[demo\]"$'):
        build(str(tmp_path))


def test_a_taken_port_is_named(served):
    port = served.url.rstrip("/").rsplit(":", 1)[1]
    with pytest.raises(ValueError, match=f"`port` is {port}, which cannot be used .*in use.*Give another one, or none"):
        main(["--model", str(served.folder / "run"), "--port", port])


def test_it_stays_on_this_machine_unless_told_otherwise():
    options = demo_flags().parsed(["--model", "x"])
    assert options.share is False and options.max_upload == 25 and LOCALHOST == "127.0.0.1"


@pytest.mark.long
def test_sigterm_ends_it_as_ctrl_c_does_and_leaves_no_upload(served):
    """The last test of the module."""
    body, kind = form(b"text\ngood")
    assert asked(served.url, "POST", "/gradio_api/upload", kind, body)[0] == 200
    assert list((served.folder / "tmp").rglob("0.csv"))
    served.program.send_signal(signal.SIGTERM)
    assert served.program.wait(60) == 128 + signal.SIGTERM
    assert not list((served.folder / "tmp").rglob("seal_hf_demo_*"))
