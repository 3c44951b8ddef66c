"""Read pages: their tables, and what a browser makes of them."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
LIMIT = 3_000_000  # bytes of a page


class Reader(HTMLParser):
    """Tables of a page: for each the texts of its head, and for each row of its body the cells, (text, data-key)."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.cell, self.sections = [], None, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append(([], []))
        elif tag == "tr" and self.tables[-1][0]:
            self.tables[-1][1].append([])
        elif tag in ("th", "td"):
            self.cell = ["", dict(attributes).get("data-key")]
        elif tag == "section":
            self.sections.append(dict(attributes)["id"])

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[0] += data

    def handle_endtag(self, tag):
        if tag == "th":
            self.tables[-1][0].append(self.cell[0])
        elif tag == "td":
            self.tables[-1][1][-1].append(tuple(self.cell))
        if tag in ("th", "td"):
            self.cell = None


def tables(page):
    """Each table as a list of rows, {column: number if it has one, else text}."""
    found = []
    for head, body in Reader(page).tables:
        rows = [dict(zip(head, row, strict=True)) for row in body]
        found.append([{name: float(key) if key else text for name, (text, key) in row.items()} for row in rows])
    return found


def table_with(page, *columns):
    """The first table that has these columns."""
    return next(rows for rows in tables(page) if rows and set(columns) <= rows[0].keys())


def check_requests(page):
    """The page names nothing that a browser would fetch, and forbids it."""
    assert [target for target in re.findall(r'(?:src|href)="([^"]*)"', page) if not re.match("#|data:", target)] == []
    assert [target for target in re.findall(r"url\(([^)]*)\)", page) if not target.startswith("#")] == []
    assert "@import" not in page and "default-src 'none'" in page


def in_browser(page, script, tmp_path):
    """The page's `document.title` after a script has run in it; the test is skipped without a Chromium."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs a Chromium to open the page: found none of {', '.join(BROWSERS)}")
    (tmp_path / "opened.html").write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom"]
    done = subprocess.run(
        [browser, *flags, (tmp_path / "opened.html").as_uri()], capture_output=True, text=True, timeout=120
    )
    return re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)[1]
