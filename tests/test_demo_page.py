"""`seal-hf demo` as a server: with Gradio's own client, and in a headless Chromium. Oracles: what the views answer, and
the addresses that the browser asks for."""

import csv
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from chromium import Chromium, found_chromium
from predicting import trained_on_texts
from test_demo import EVIL, view_of

from seal_hf.demo.program import build, demo_flags, main
from seal_hf.demo.server import LOCALHOST
from seal_hf.demo.views import OWN

pytest.importorskip("gradio", reason="the page needs the extra demo")
ROOT = Path(__file__).resolve().parents[1]


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


def test_the_page_answers_to_the_names_of_this_machine_alone(served):
    for name, status in ((f"localhost:{urlsplit(served.url).port}", 200), ("elsewhere.example", 400)):
        request = urllib.request.Request(served.url, headers={"Host": name})
        try:
            with urllib.request.urlopen(request) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == status, name


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


def test_it_ends_with_ctrl_c_and_leaves_no_upload(served):
    """The last test of the module."""
    assert list((served.folder / "tmp").rglob("new.csv"))
    served.program.send_signal(signal.SIGINT)
    assert served.program.wait(30) == 0
    assert not list((served.folder / "tmp").rglob("new.csv"))
