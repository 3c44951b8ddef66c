"""Runs the code of a tutorial as a reader would and writes what it prints below each block, so that the figures on the
page are those of a run.

    python benchmarks/record_tutorials.py docs/tutorials/tagging.md
    python benchmarks/record_tutorials.py docs/tutorials/multi-label-text.md --encoder FOLDER  # for its encoder

A block of text below `<!-- output -->` holds what the block of Python before it printed, without the Trainer's log.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
BLOCK = re.compile(r"(?:<!-- (?P<said>.+?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def recorded(page: str, encoder: str) -> str:
    """The page with new outputs. Its code runs in the present folder."""
    names: dict = {"__name__": "__main__"}
    printed = ""

    def new(match: re.Match) -> str:
        nonlocal printed
        said, text = match["said"] or "", match["text"]
        if said.startswith("file: "):
            Path(said.removeprefix("file: ")).write_text(text, encoding="utf-8")
        elif said == "output":
            return f"<!-- output -->\n```text\n{printed}\n```"
        elif match["language"] == "python" and not said.startswith("not run"):
            with contextlib.redirect_stdout(io.StringIO()) as caught:
                exec(compile(text.replace(ENCODER, encoder), "tutorial", "exec"), names)  # noqa: S102 - our own page
            lines = caught.getvalue().rstrip().splitlines()
            printed = "\n".join(line.rstrip() for line in lines if line.strip() and not line.startswith("{'"))
        return match[0]

    return BLOCK.sub(new, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--encoder", default=ENCODER, help="folder or Hub id of the encoder that the page names")
    options = parser.parse_args()
    page = options.page.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        text = recorded(page.read_text(encoding="utf-8"), options.encoder)
        os.chdir(page.parent)
    page.write_text(text, encoding="utf-8")
    print(f"{page.name}: recorded.", file=sys.stderr)


if __name__ == "__main__":
    main()
