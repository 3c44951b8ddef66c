"""Files of data, mutated. A command may end well only where an independent reader still finds a file of that kind."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image
from pyarrow import parquet

from . import samples
from .engine import Case

Count = int | None  # rows that an independent reader finds; None if it cannot read the file


@dataclass
class Format:
    """A kind of file.

    Attributes:
        files: what the case's folder holds, by path; target: the one that is mutated; the others are as they were.
        count: the rows of its content, by an independent reader.
        commands: words after `seal-hf`; `->` marks those that write predictions to `out.jsonl`.
        load: a function that reads it, and returns the number of rows.
    """

    name: str
    target: str
    count: Callable[[bytes], Count]
    commands: tuple[str, ...] = ()
    load: Callable[[], int | None] | None = None
    files: tuple[str, ...] = ()
    binary: bool = False


# --- independent readers ---------------------------------------------------------------------------------------------


def text_of(content: bytes) -> str:
    """Line ends of any system as line feeds."""
    return content.decode("utf-8").lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def rows_of_csv(content: bytes, mark: str = ",") -> Count:
    quoting = csv.QUOTE_NONE if mark == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(2**31 - 1)
    rows = [
        row
        for row in csv.reader(io.StringIO(text_of(content), newline=""), delimiter=mark, quoting=quoting, strict=True)
        if row
    ]
    widths = {len(row) for row in rows}
    return len(rows) - 1 if len(widths) == 1 and len(rows) > 1 and len(set(rows[0])) == len(rows[0]) else None


def pairs_of_csv(content: bytes) -> Count:
    return -1 if rows_of_csv(content) else None  # -1: a file of its kind, whose rows are not counted


def rows_of_jsonl(content: bytes) -> Count:
    rows = [json.loads(line) for line in text_of(content).split("\n") if line.strip()]
    return len(rows) if rows and all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows) else None


def rows_of_parquet(content: bytes) -> Count:
    return len(parquet.read_table(io.BytesIO(content)).to_pylist())


def rows_of_arff(content: bytes) -> Count:
    header, data = re.split(r"(?im)^@data\s*$", text_of(content), maxsplit=1)
    attributes = re.findall(r"(?im)^@attribute\s+(\S+)\s+(.+)$", header)
    rows = [line.split(",") for line in data.splitlines() if line.strip() and not line.startswith("%")]
    for row in rows:
        if len(row) != len(attributes):
            return None
        for cell, (_, kind) in zip(row, attributes, strict=True):
            if kind.startswith("{") and cell.strip() not in kind.strip("{} \r").split(","):
                return None
            if kind.strip() == "numeric":
                float(cell)
    return len(rows)


def labels_of_xml(content: bytes) -> Count:
    names = [label.get("name") for label in ElementTree.fromstring(content) if label.tag.endswith("label")]
    return len(samples.texts()) if names and set(names) <= {*samples.LABELS, "x4"} else None


def sentences_of_columns(content: bytes) -> Count:
    lines = [line for line in text_of(content).split("\n") if line.strip()]
    return -1 if len({len(line.split()) for line in lines}) == 1 else None


def sentences_of_roles(content: bytes) -> Count:
    """Each sentence has a number of columns of its own."""
    sentences = [block for block in re.split(r"\n\s*\n", text_of(content)) if block.strip()]
    widths = [
        {len(re.split(r"[ \t]+", line.strip())) for line in block.split("\n") if line.strip()} for block in sentences
    ]
    return -1 if widths and all(len(each) == 1 for each in widths) else None


def trees_of(content: bytes) -> Count:
    depth = 0
    for mark in re.findall(r"[()]", text_of(content)):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            return None
    return -1 if depth == 0 else None


def references_of(content: bytes) -> Count:
    marks = re.findall(r"<(/?)(\w[\w-]*)>", text_of(content).replace("<NEWREFERENCE>", ""))
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    return -1 if all(a[0] == "" and b == ("/", a[1]) for a, b in pairs) else None


def rows_of_npz(content: bytes) -> Count:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        images, masks = stored["images"], stored["masks"]
    whole = images.shape == (len(masks), *masks.shape[1:], 3) and images.dtype == masks.dtype == np.uint8
    return len(images) if whole else None


def images_of_npz(content: bytes) -> Count:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return len(stored["images"])


def vectors_of_npz(content: bytes) -> Count:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        words, vectors = stored["words"], stored["vectors"]
    return -1 if vectors.shape[:1] == words.shape and np.isfinite(vectors).all() else None


def an_array(content: bytes) -> Count:
    found = np.load(io.BytesIO(content), allow_pickle=False)
    return -1 if len(found) == len(samples.WORDS) and np.isfinite(found).all() else None


def an_image(content: bytes) -> Count:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Image.open(io.BytesIO(content)).load()
    return -1


def a_text(content: bytes) -> Count:
    text_of(content)
    return -1


# --- readers of the package ------------------------------------------------------------------------------------------


def total(data) -> int:
    return sum(len(split) for split in (data.train, data.validation, data.test) if split is not None)


def labels(path: str, **options) -> Callable[[], int]:
    def load() -> int:
        import seal_hf

        return total(seal_hf.load_multilabel(path, **options))

    return load


def loaded(function: str, path: str) -> Callable[[], int]:
    def load() -> int:
        from seal_hf import data

        return total(getattr(data, function)(path))

    return load


def predicted(model: str, path: str) -> str:
    return f"predict --model {{models}}/{model} --input {path} --output out.jsonl"


def evaluated(model: str, path: str) -> str:
    return f"evaluate --model {{models}}/{model} --input {path} --output out.json"


def both(model: str, path: str) -> tuple[str, str]:
    return predicted(model, path), evaluated(model, path)


TRAIN_TEXTS = "train mlc --dataset rows.csv --model_name_or_path {models}/encoder --max_length 8 --output_dir o {quick}"
TRAIN_PICTURES = "train mlc --dataset pictures --hidden_size 8 --global_size 4 --output_dir o {quick}"
TRAIN_TAGS = "train tagging --dataset rows.conll --output_dir o {quick} --word_vectors"
FORMATS = [
    Format("csv", "rows.csv", rows_of_csv, (*both("texts", "rows.csv"), TRAIN_TEXTS), labels("rows.csv")),
    Format("csv of 0 and 1", "hot.csv", rows_of_csv, both("texts", "hot.csv"), labels("hot.csv")),
    Format(
        "tsv", "rows.tsv", lambda content: rows_of_csv(content, "\t"), both("texts", "rows.tsv"), labels("rows.tsv")
    ),
    Format("jsonl", "rows.jsonl", rows_of_jsonl, both("texts", "rows.jsonl"), labels("rows.jsonl")),
    Format(
        "parquet", "rows.parquet", rows_of_parquet, both("texts", "rows.parquet"), labels("rows.parquet"), binary=True
    ),
    Format("parquet of features", "features.parquet", rows_of_parquet, (), labels("features.parquet"), binary=True),
    Format(
        "arff", "features/r.arff", rows_of_arff, both("features", "features"), labels("features"), ("features/r.xml",)
    ),
    Format("xml", "features/r.xml", labels_of_xml, (), labels("features"), ("features/r.arff",)),
    Format("arff of Clus", "clus.arff", rows_of_arff, (), labels("clus.arff")),
    Format(
        "hierarchy", "hierarchy.csv", pairs_of_csv, (), labels("rows.csv", hierarchy="hierarchy.csv"), ("rows.csv",)
    ),
    Format(
        "columns", "rows.conll", sentences_of_columns, both("tags", "rows.conll"), loaded("load_tags", "rows.conll")
    ),
    Format("jsonl of tags", "tags.jsonl", rows_of_jsonl, both("tags", "tags.jsonl"), loaded("load_tags", "tags.jsonl")),
    Format(
        "parquet of tags",
        "tags.parquet",
        rows_of_parquet,
        both("tags", "tags.parquet"),
        loaded("load_tags", "tags.parquet"),
        binary=True,
    ),
    Format("references", "references.txt", references_of, (), loaded("load_tags", "references.txt")),
    Format("roles", "roles.srl", sentences_of_roles, both("roles", "roles.srl"), loaded("load_srl", "roles.srl")),
    Format("trees", "rows.trees", trees_of, (evaluated("trees", "rows.trees"),), loaded("load_trees", "rows.trees")),
    Format(
        "npz",
        "masks.npz",
        rows_of_npz,
        (evaluated("masks", "masks.npz"),),
        loaded("load_masks", "masks.npz"),
        binary=True,
    ),
    Format(
        "npz of images",
        "masks.npz",
        images_of_npz,
        ("predict --model {models}/masks --input masks.npz --output out",),
        binary=True,
    ),
    Format(
        "npz of classes",
        "classes.npz",
        rows_of_npz,
        (evaluated("classes", "classes.npz"),),
        loaded("load_masks", "classes.npz"),
        binary=True,
    ),
    Format(
        "masks",
        "folder/masks/3.png",
        an_image,
        (evaluated("masks", "folder"),),
        loaded("load_masks", "folder"),
        tuple(samples.mask_folder()),
        binary=True,
    ),
    Format(
        "images",
        "pictures/images/3.jpg",
        an_image,
        (*both("pictures", "pictures"), TRAIN_PICTURES),
        None,
        tuple(samples.pictures()),
        binary=True,
    ),
    Format(
        "csv of images",
        "pictures/labels.csv",
        rows_of_csv,
        (predicted("pictures", "pictures/labels.csv"), evaluated("pictures", "pictures")),
        labels("pictures"),
        tuple(samples.pictures()),
    ),
    Format("texts to tag", "words.txt", a_text, (predicted("tags", "words.txt"),)),
    Format("vectors", "vectors.txt", a_text, (f"{TRAIN_TAGS} vectors.txt",), None, ("rows.conll",)),
    Format(
        "vectors.npz", "vectors.npz", vectors_of_npz, (f"{TRAIN_TAGS} vectors.npz",), None, ("rows.conll",), binary=True
    ),
    Format(
        "vectors.npy",
        "vectors/v.npy",
        an_array,
        (f"{TRAIN_TAGS} vectors",),
        None,
        ("rows.conll", "vectors/w.parquet"),
        binary=True,
    ),
    Format(
        "words.parquet",
        "vectors/w.parquet",
        rows_of_parquet,
        (f"{TRAIN_TAGS} vectors",),
        None,
        ("rows.conll", "vectors/v.npy"),
        binary=True,
    ),
    Format(
        "gazetteer",
        "gazetteer.txt",
        a_text,
        ("rules check rules.yaml --dataset rows.conll",),
        None,
        ("rows.conll", "rules.yaml"),
    ),
]


# --- mutations -------------------------------------------------------------------------------------------------------

Mutation = Callable[[bytes, random.Random], bytes]


def flipped(count: int) -> Mutation:
    def mutate(content: bytes, draw: random.Random) -> bytes:
        found = bytearray(content)
        for _ in range(count):
            found[draw.randrange(len(found))] = draw.randrange(256)
        return bytes(found)

    return mutate


def inserted(*pieces: bytes) -> Mutation:
    def mutate(content: bytes, draw: random.Random) -> bytes:
        place = draw.randrange(len(content))
        return content[:place] + draw.choice(pieces) + content[place:]

    return mutate


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def without_a_piece(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content))
    return content[:start] + content[start + draw.randint(1, 40) :]


def repeated(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content))
    piece = content[start : start + draw.randint(1, 200)]
    return content[:start] + piece + content[start:]


def by_lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Mutation:
    return lambda content, draw: b"\n".join(change(content.split(b"\n"), draw))


def in_a_line(change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    def mutate(lines: list[bytes], draw: random.Random) -> list[bytes]:
        number = draw.randrange(len(lines))
        return [*lines[:number], change(lines[number], draw), *lines[number + 1 :]]

    return by_lines(mutate)


def other_cell(line: bytes, draw: random.Random) -> bytes:
    cells = re.split(rb"([,\t |()<>\"]+)", line)
    values = [
        b"nan",
        b"",
        b"1e999",
        b"-1",
        b"3.7",
        b"NULL",
        b"9" * 400,
        b"[" * 50,
        b"{}",
        b"=1+1",
        b"\xc3\xa9",
        b"?",
        b"true",
    ]
    cells[2 * draw.randrange(len(cells) // 2 + 1)] = draw.choice(values)
    return b"".join(cells)


def moved_mark(line: bytes, draw: random.Random) -> bytes:
    marks = [m.start() for m in re.finditer(rb"[,\t |:\"{}\[\]()<>]", line)]
    if not marks:
        return line
    place = draw.choice(marks)
    return (
        line[:place] + line[place + 1 :]
        if draw.random() < 0.5
        else line[:place] + line[place : place + 1] + line[place:]
    )


def encoded(name: str) -> Mutation:
    return lambda content, draw: (content.decode("latin-1").replace("good", "g\xf6\xf6d")).encode(name, "replace")


def zip_bomb(content: bytes, draw: random.Random) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images.npy", "masks.npy"):
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": "|u1", "fortran_order": False, "shape": (10**10, 1, 1, 3)}
            )
            archive.writestr(name, header.getvalue() + bytes(10**7))
    return file.getvalue()


EVERYWHERE: dict[str, Mutation] = {
    "a byte": flipped(1),
    "five bytes": flipped(5),
    "cut": cut,
    "a piece is missing": without_a_piece,
    "a piece twice": repeated,
    "empty": lambda content, draw: b"",
    "a NUL": inserted(b"\0"),
    "noise": lambda content, draw: draw.randbytes(3000),
    "gzip": lambda content, draw: gzip.compress(content),
    "an archive with a huge array": zip_bomb,
    "a pickle": lambda content, draw: HOSTILE,
    "a page of HTML": lambda content, draw: b"<!DOCTYPE html><html><body>404: not found</body></html>",
    "a pointer of Git LFS": lambda content, draw: (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 12\n"
    ),
}
IN_TEXT: dict[str, Mutation] = {
    "a line is missing": by_lines(
        lambda lines, draw: [line for i, line in enumerate(lines) if i != draw.randrange(len(lines))]
    ),
    "no header": by_lines(lambda lines, draw: lines[1:]),
    "the header twice": by_lines(lambda lines, draw: lines[:1] + lines),
    "joined twice": lambda content, draw: content + content,
    "lines in another order": by_lines(lambda lines, draw: draw.sample(lines, len(lines))),
    "another cell": in_a_line(other_cell),
    "another cell again": in_a_line(other_cell),
    "a mark more or less": in_a_line(moved_mark),
    "another mark more or less": in_a_line(moved_mark),
    "a quote": inserted(b'"', b"'"),
    "quotes": lambda content, draw: content.replace(b"good", b'"go"od'),
    "utf-16": encoded("utf-16"),
    "latin-1": encoded("latin-1"),
    "utf-7": encoded("utf-7"),
    "a byte order mark": lambda content, draw: b"\xef\xbb\xbf" + content,
    "two byte order marks": lambda content, draw: b"\xef\xbb\xbf\xef\xbb\xbf" + content,
    "half a byte order mark": lambda content, draw: b"\xef\xbb" + content,
    "old line ends": lambda content, draw: content.replace(b"\n", b"\r"),
    "line ends of Windows": lambda content, draw: content.replace(b"\n", b"\r\n"),
    "line ends of Unicode": lambda content, draw: content.replace(b"\n", "\u2028".encode()),
    "controls": inserted(b"\x1b[2J\x1b[31m", b"\x0c", b"\xc2\x9b31m", "\u202e".encode(), b"\x1a"),
    "blanks": lambda content, draw: b" \n\t\n" * 20,
    "a long cell": inserted(b"x" * 2_000_000),
    "many columns": by_lines(lambda lines, draw: [line + b",1" * 3000 for line in lines]),
    "nested": in_a_line(lambda line, draw: b"[" * 200_000),
    "nested objects": in_a_line(lambda line, draw: b'{"a":' * 50_000),
    "nested brackets": in_a_line(lambda line, draw: b"(S " * 50_000),
    "nested in a cell": in_a_line(lambda line, draw: line + b"[" * 50_000),
    "entities": lambda content, draw: BILLION_LAUGHS,
    "an outside entity": lambda content, draw: OUTSIDE_ENTITY,
}
HOSTILE = b"cposix\nsystem\n(S'touch PWNED'\ntR."
BILLION_LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "x">'
    + b"".join(b'<!ENTITY a%d "%s">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 12))
    + b"]><labels><label name='&a11;'/></labels>"
)
OUTSIDE_ENTITY = (
    b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY x SYSTEM "../bait/secret">]><labels><label name="&x;"/></labels>"""
)


def cases(models: Path, repeats: int = 1) -> Iterator[Case]:
    """Every mutation of every format, for every command that reads it."""
    everything = samples.data()
    everything |= {
        "words.txt": "\n".join(row["text"] for row in samples.texts()).encode(),
        "gazetteer.txt": b"good film\nbook\n",
    }
    for form in FORMATS:
        found = {**EVERYWHERE, **({} if form.binary else IN_TEXT)}
        files = {name: everything[name] for name in (form.target, *form.files)}
        if form.name == "gazetteer":
            files["rules.yaml"] = b"rules:\n- {gazetteer: gazetteer.txt, are: [PER]}\n"
        commands = [*(command.format(models=models, quick=" ".join(samples.QUICK)) for command in form.commands)]
        ways = [form.load, *commands] if form.load is not None else commands
        for mutation, change in found.items():
            for number in range(repeats):
                for command in ways:
                    said = ["load"] if callable(command) else command.split()
                    name = f"{form.name}: {mutation} ({' '.join(said[: 2 if said[0] == 'train' else 1])})"
                    yield _case(
                        form, f"{name} {number}" if number else name, files, change, command, f"{mutation} {number}"
                    )


def _case(form: Format, name: str, files: dict[str, bytes], change: Mutation, command, seed: str) -> Case:
    rows: list[Count] = [None]

    def prepare(draw: random.Random) -> str | None:
        content = change(files[form.target], random.Random(f"{draw.random()}/{seed}"))
        samples.write({**files, form.target: content})
        try:
            rows[0] = form.count(content)
        except Exception:  # the reader refuses it
            rows[0] = None
        return None if rows[0] is None else f"still {form.name}"

    def run() -> None:
        rows.append(command())

    def check() -> str | None:
        read = rows[-1] if len(rows) > 1 else _written()
        if rows[0] in (None, -1) or read is None or read == rows[0]:
            return None
        return f"{read} rows were read, an independent reader finds {rows[0]}"

    target = Path(form.target)
    names = (target.name, target.parent.name) if target.parent.name else (target.name,)
    return Case("data files", name, prepare, run if callable(command) else command.split(), names, check)


def _written() -> int | None:
    file = Path("out.jsonl")
    return len(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else None
