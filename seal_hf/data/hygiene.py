"""What the rows of a data set contain: notes on suspicious data, a line each with counts, and a fingerprint, which
tells apart results of data sets with the same name and size. Nothing is changed."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .late import datasets

if TYPE_CHECKING:
    from datasets import Dataset

MISSING = ("nan", "null", "<na>", "n/a", "na", "none", "-", "--", "?")  # texts that were missing values
HTML = re.compile(r"&(?:lt|gt|amp|quot|nbsp|#\d+)(?![a-z])")  # the semicolon after it may separate labels
SHOWN = 3


def name_notes(names: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Notes on labels that differ only in case, blanks or invisible characters, or look like missing values.

    Args:
        names, counts: L labels, and the number of rows with each.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name, count in zip(names, counts, strict=True):
        alike[_spelling(name)].append(f"{name!r} ({count} rows)")
    groups = [" and ".join(group) for group in alike.values() if len(group) > 1]
    said = "by case, blanks or invisible characters (kept)"
    notes = [f"{len(groups)} labels have several spellings, {said}: {_few(groups)}."]
    notes = notes if groups else []
    missing = [f"{name!r} ({n} rows)" for name, n in zip(names, counts, strict=True) if name.casefold() in MISSING]
    if missing:
        notes.append(f"a label is called {' and '.join(missing)}: if it is a missing value, empty these cells.")
    escaped = [name for name in names if HTML.search(name)]
    if escaped:
        shown = _few([*map(repr, escaped)])
        notes.append(
            f"{len(escaped)} labels hold marks of HTML: {shown}. Replace them in the cells, by html.unescape of Python."
        )
    return notes


def single_label_notes(sizes: np.ndarray, num_labels: int) -> list[str]:
    """A note on data whose rows all have one label; `sizes` are those of the label sets, (N,)."""
    if num_labels < 2 or not len(sizes) or (sizes != 1).any():
        return []
    return ["each row has one label. Labels are trained as sets, so none excludes another."]


def _spelling(name: str) -> str:
    """The name without case, blanks, invisible characters, and the forms that Unicode calls compatible."""
    plain = unicodedata.normalize("NFKC", name)
    return "".join(char for char in plain if unicodedata.category(char)[0] not in "CZ").casefold()


def repeat_notes(rows: Mapping[str, Sequence[Hashable]], labels: Mapping[str, np.ndarray] | None = None) -> list[str]:
    """Notes on inputs that occur twice, in one split or in two.

    Args:
        rows: split -> inputs of its rows; empty texts do not count.
        labels: split -> label sets of its rows, (N, L).
    """
    found = {split: Counter(row for row in inputs if row) for split, inputs in rows.items()}
    within = {split: inputs.total() - len(inputs) for split, inputs in found.items()}
    notes = []
    if any(within.values()):
        shown = ", ".join(f"{count} in {split}" for split, count in within.items() if count)
        notes.append(f"{sum(within.values())} rows repeat the input of another row of their split (kept): {shown}.")
        sets: dict[Hashable, set[bytes]] = defaultdict(set)
        for split, matrix in (labels or {}).items():
            for key, row in zip(rows[split], matrix, strict=True):
                if found[split][key] > 1:
                    sets[split, key].add(row.tobytes())
        if several := sum(len(different) > 1 for different in sets.values()):
            notes[-1] += (
                f" {several} of these inputs have several label sets: if the file has a row for each label or "
                "annotator, write one row for each input."
            )
    shared = {
        (second, first): sum(count for row, count in found[second].items() if row in found[first])
        for first, second in combinations(found, 2)
    }
    if any(shared.values()):
        shown = ", ".join(f"{n} of {second} in {first}" for (second, first), n in shared.items() if n)
        notes.append(f"rows occur in two splits (kept): {shown}. Figures on them are too good.")
    return notes


def keys_of(inputs: np.ndarray | Dataset | Sequence[str]) -> Sequence[Hashable]:
    """Rows of an array as bytes; images by the path of their file, or else by a hash of its contents; texts
    unchanged."""
    if isinstance(inputs, datasets.Dataset):
        return [_image_key(cell) for cell in image_cells(inputs)]
    return [row.tobytes() for row in inputs] if isinstance(inputs, np.ndarray) else inputs


def image_cells(images: Dataset) -> Iterator[dict[str, Any]]:
    """The `bytes` and `path` of each image in the only column of a data set. At least one of the two is given."""
    (column,) = images.column_names
    for part in images.with_format("arrow").iter(1000):
        yield from part[column].to_pylist()


def image_content(cell: Mapping[str, Any]) -> bytes:
    """The bytes of an image, stored or in its file."""
    return Path(cell["path"]).read_bytes() if cell["bytes"] is None else cell["bytes"]


def _image_key(cell: Mapping[str, Any]) -> Hashable:
    content = cell["bytes"]
    return cell["path"] if content is None else hashlib.blake2b(content, digest_size=16).digest()


def _few(shown: Sequence[str]) -> str:
    return "; ".join(shown[:SHOWN]) + ("; ..." if len(shown) > SHOWN else "")


def looks_like_data(columns: Mapping[str, Sequence[Any]], usual: Iterable[str]) -> bool:
    """True if the column names look like a row: none is usual, and one occurs among its column's own values.

    Args:
        columns: name -> values.
        usual: names that a header may have.
    """
    names = [name for name in columns if name]
    numbers = [name for name in names if re.fullmatch(r"\d+", name)]
    counted = len(numbers) > 1 and numbers == [str(i) for i in range(len(numbers))]  # pandas' default names
    if set(usual) & {name.lower() for name in names}:
        return False
    return any(name in columns[name] for name in names if not (counted and name in numbers))


# --- a fingerprint ----------------------------------------------------------------------------------------------------

NUMBERS = {"f": np.float32, "b": np.int64, "i": np.int64, "u": np.int64}  # kind of a column -> type for the hash


def fingerprint(data: Any) -> str:
    """16 digits that differ for other labels or inputs of any split, or another order of rows.

    Args:
        data: from [`load_multilabel`], [`load_tags`], [`load_srl`] or [`load_masks`].
    """
    digest = hashlib.sha256(" ".join(data.label_names).encode())
    for split in ("train", "validation", "test", "unlabelled"):
        for name, content in sorted(_columns(getattr(data, split, None)).items()):
            digest.update(name.encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _columns(rows: Any) -> dict[str, Any]:
    """The columns of a split as bytes, for a data set or images with masks; empty without a split."""
    if rows is None:
        return {}
    if isinstance(rows, np.ndarray):
        return {"images": np.ascontiguousarray(rows).data}
    if isinstance(rows, datasets.Dataset) and "image" in rows.column_names:
        contents = map(image_content, image_cells(rows.select_columns(["image"])))
        hashes = (hashlib.sha256(content).digest() for content in contents)
        return _columns(rows.remove_columns(["image"])) | {"image": b"".join(hashes)}
    if isinstance(rows, datasets.Dataset):
        return {name: _as_bytes(np.asarray(values)) for name, values in rows.with_format("numpy")[:].items()}
    return {name: np.ascontiguousarray(getattr(rows, name)).data for name in ("images", "masks")}


def _as_bytes(values: np.ndarray) -> bytes | memoryview:
    kind = NUMBERS.get(values.dtype.kind)
    return repr(values.tolist()).encode() if kind is None else np.ascontiguousarray(values, dtype=kind).data
