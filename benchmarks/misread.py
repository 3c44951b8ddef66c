"""Mutated files of data, read by the loaders: how many are read right, how many are refused, and how many are misread.

    python benchmarks/misread.py            # 300 mutants of ten files, with seed 0; prints a table and each misread
    file python benchmarks/misread.py --count 60 --seed 7 --show misread told

Each mutation changes how rows are written, or damages the file: the mark of a csv or between labels, a header, quotes,
an encoding, the order or number of columns, the end of the file. The check knows the rows. A row that the mutated file
really holds is right: a sentence that is cut or has a quote in a word, a cell of labels that was emptied or cut. A file
is misread if a loader ends well with other rows, and none of its notes says so. It runs in one process, without network
or models.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

TELLS = (  # parts of notes that tell of rows which are read otherwise than they are meant
    "between names that are labels too",
    "do not separate",
    "does not separate",
    "several spellings",
    "commas separate",
    "occurs once",
    "are empty (kept)",
    "numbers are ids",
    "names splits",
    "is it a line of headers",
    "rewritten as well-formed",
    "each tag is read by itself",
    "usual spelling",
    "holds tags such as",
    "tag is read by itself",
    "is it that of the texts?",
    "spans without a label",
    "words outside all fields",
    "does the file end early",
)


class Mutant(NamedTuple):
    """A file, its loader's kind (`labels` or `tags`), and the rows that it was made of."""

    name: str
    kind: str
    file: str
    content: bytes
    options: dict[str, Any]
    beside: dict[str, str]
    truth: Counter


def mutants(count: int, seed: int) -> Iterator[Mutant]:
    """As many mutants, drawn with the seed."""
    import layouts

    labels = [one for one in layouts.LABELS if one.file.endswith((".csv", ".jsonl", ".json"))]
    known = [*labels, *layouts.TAGS]
    chosen = random.Random(0).sample(labels, 5) + random.Random(1).sample(layouts.TAGS, 5)
    assert all(one in known for one in chosen)
    draw = random.Random(seed)
    for _ in range(count):
        one = draw.choice(chosen)
        name, change = draw.choice(MUTATIONS)
        content = change(one.content, draw)
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        yield Mutant(f"{name}: {one.title}", one.kind, one.file, data, one.options, one.beside, truth_of(one))


def truth_of(layout: Any) -> Counter:
    """The rows that a layout was written from."""
    import layouts

    if layout.kind == "tags":
        rows = layouts.sentences() if layout.expected is None else layout.expected
        return Counter((tuple(words), tuple(tags)) for words, tags in rows)
    rows = layouts.rows() if layout.expected is None else layout.expected
    return Counter(label_row(value, names) for value, names in rows)


def label_row(value: Any, names: Any) -> tuple[Any, frozenset[str]]:
    return (value if isinstance(value, str) else tuple(round(float(v), 4) for v in value), frozenset(names))


def rows_read(mutant: Mutant, folder: Path) -> tuple[Counter, list[str]]:
    """The rows that the loader reads, and its notes."""
    import numpy as np

    from seal_hf import load_multilabel, load_tags

    for name, text in mutant.beside.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / mutant.file).write_bytes(mutant.content)
    load: Any = load_tags if mutant.kind == "tags" else load_multilabel
    data = load(str(folder / mutant.file), **mutant.options)
    found: Counter = Counter()
    for split in (data.train, data.validation, data.test):
        if mutant.kind == "tags":
            found.update((tuple(row["words"]), tuple(data.label_names[i] for i in row["tags"])) for row in split)
            continue
        labels = np.asarray(split.with_format("numpy")["labels"][:])
        for value, row in zip(split["text" if data.kind == "text" else "features"][:], labels, strict=True):
            found[label_row(value, (data.label_names[i] for i in np.flatnonzero(row > 0)))] += 1
    return found, data.notes


def outcome(mutant: Mutant) -> tuple[str, str]:
    """`right`, `told` (other rows, and a note says so), `refused` or `misread`; and what was read or said."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found, notes = rows_read(mutant, Path(folder))
        except (ValueError, OSError) as error:
            return "refused", str(error)
    odd_rows = {row for row in found - mutant.truth if not _is_as_written(row, mutant)}
    if not odd_rows:
        return "right", ""
    said = " ".join(notes)
    odd = next(iter(odd_rows))
    return ("told" if any(part in said for part in TELLS) else "misread"), f"{odd!r}"[:160]


def _is_as_written(row: Any, mutant: Mutant) -> bool:
    """True for a row that the mutated file really holds, see the module: marks and quotes in it may be others."""
    if mutant.kind == "tags":
        words, tags = (tuple(map(_without_marks, row[0])), tuple(tag.replace('"', "") for tag in row[1]))
        for known, of in mutant.truth:
            own = tuple(map(_without_marks, known))
            if (words, tags) in ((own[: len(words)], of[: len(words)]), (own[-len(words) :], of[-len(words) :])):
                return True
        return False
    value, names = row[0], {name.replace('"', "") for name in row[1]}
    return any(names <= of and _is_part(value, known) for known, of in mutant.truth)


def _is_part(value: Any, known: Any) -> bool:
    """True for the same features in any order, and for the end of a text."""
    if isinstance(value, tuple):
        return value == known or value == tuple(sorted(known))
    end = _without_marks(value)
    return end != "" and _without_marks(known).endswith(end)


def _without_marks(text: str) -> str:
    return " ".join(re.split(r"[\s;,|#/、]+", text.replace('"', ""))).strip()


# --- mutations -------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> list[str]:
    return text.split("\n")


def other_mark(text: str, draw: random.Random) -> str:
    """The marks between cells of a table become others."""
    old, new = draw.choice(((",", ";"), (",", "\t"), ("\t", ","), ("\t", " "), ("|", "#"), ("|", "/"), ("|", "、")))
    return text.replace(old, new)


def without_header(text: str, draw: random.Random) -> str:
    return "\n".join(lines_of(text)[1:])


def header_twice(text: str, draw: random.Random) -> str:
    rows = lines_of(text)
    return "\n".join([*rows[: len(rows) // 2], rows[0], *rows[len(rows) // 2 :]])


def without_quotes(text: str, draw: random.Random) -> str:
    return text.replace('"', "")


def a_quote(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text))
    return text[:at] + '"' + text[at:]


def in_latin(text: str, draw: random.Random) -> bytes:
    return text.replace("a", "ä").encode("latin-1", "replace")


def in_utf_16(text: str, draw: random.Random) -> bytes:
    return text.encode("utf-16")


def with_mark(text: str, draw: random.Random) -> bytes:
    return b"\xef\xbb\xbf" + text.encode("utf-8")


def of_windows(text: str, draw: random.Random) -> bytes:
    return text.replace("\n", "\r\n").encode("utf-8")


def cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text) // 2, len(text))]


def a_column(text: str, draw: random.Random) -> str:
    """One more column at the beginning, of numbers."""
    mark = "\t" if "\t" in text else ","
    return "\n".join(f"{i}{mark}{row}" if row else row for i, row in enumerate(lines_of(text)))


def turned(text: str, draw: random.Random) -> str:
    """The columns in the opposite order, of a file without quotes."""
    mark = "\t" if "\t" in text else ","
    if '"' in text:
        return text
    return "\n".join(mark.join(reversed(row.split(mark))) for row in lines_of(text))


def a_row(text: str, draw: random.Random) -> str:
    """A line with other cells."""
    rows = lines_of(text)
    rows.insert(draw.randrange(1, len(rows)), draw.choice(("x", "x,y,z", "x\ty\tz\tu", "#", "# x", "{}", "null")))
    return "\n".join(rows)


def empty_cells(text: str, draw: random.Random) -> str:
    """A cell in a row is empty."""
    rows = lines_of(text)
    at = draw.randrange(1, len(rows))
    mark = "\t" if "\t" in text else ","
    cells = rows[at].split(mark)
    cells[draw.randrange(len(cells))] = ""
    return "\n".join([*rows[:at], mark.join(cells), *rows[at + 1 :]])


MUTATIONS: list[tuple[str, Callable[[str, random.Random], str | bytes]]] = [
    (change.__name__.replace("_", " "), change)
    for change in (
        other_mark,
        without_header,
        header_twice,
        without_quotes,
        a_quote,
        in_latin,
        in_utf_16,
        with_mark,
        of_windows,
        cut,
        a_column,
        turned,
        a_row,
        empty_cells,
    )
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", nargs="*", default=["misread"], help="outcomes of which each file is printed")
    options = parser.parse_args()
    found: Counter = Counter()
    for mutant in mutants(options.count, options.seed):
        what, said = outcome(mutant)
        found[what] += 1
        if what in options.show:
            print(json.dumps({what: mutant.name, "read": said}, ensure_ascii=False))
    print(json.dumps(dict(found)))


if __name__ == "__main__":
    main()
