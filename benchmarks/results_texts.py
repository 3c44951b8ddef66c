"""A file of many long texts that are alike word by word, such as the F1 of each test row by each of many runs.

Texts of as many words stand in one table with a column per text: below a line `=WORDS` there is a line per word. What
is alike stands side by side, so most compressed files are smaller than with a line per text.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path

from seal_hf.utils.files import whole_file


def read_texts(file: Path) -> list[str]:
    """All texts of a file, none if it is missing. Older checkouts have a line per text.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        lines = lzma.decompress(file.read_bytes()).decode().split("\n")[:-1] if file.is_file() else []
    except lzma.LZMAError as error:
        raise ValueError(f"{file} is damaged: {error}. Put a whole copy back.") from None
    if not lines or not lines[0].startswith("="):
        return lines
    texts, start = [], 0
    while start < len(lines):
        end = start + 1 + int(lines[start].removeprefix("="))
        if end > len(lines):
            raise ValueError(f"{file} is damaged: its last table lacks lines. Put a whole copy back.")
        texts += map(" ".join, zip(*(line.split(" ") for line in lines[start + 1 : end]), strict=True))
        start = end
    return texts


def write_texts(file: Path, texts: Iterable[str]) -> None:
    """Write the file completely, or leave it as it is if it has the same texts in this order."""
    tables: dict[int, list[list[str]]] = {}
    for text in texts:
        words = text.split(" ")
        tables.setdefault(len(words), []).append(words)
    lines = []
    for size, columns in sorted(tables.items()):
        lines += [f"={size}", *map(" ".join, zip(*columns, strict=True))]
    content = lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9)
    if not (file.is_file() and file.read_bytes() == content):
        with whole_file(file) as unfinished:
            unfinished.write_bytes(content)
