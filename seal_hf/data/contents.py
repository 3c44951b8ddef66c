"""A data set's contents in 16 digits, to tell apart results of data sets with the same name and size."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from datasets import Dataset

from .common import IMAGE, SPLITS
from .hygiene import image_cells, image_content

NUMBERS = {"f": np.float32, "b": np.int64, "i": np.int64, "u": np.int64}  # kind of a column -> type for the hash


def fingerprint(data: Any) -> str:
    """16 digits that differ for other labels or inputs of any split, or another order of rows.

    Args:
        data: from [`load_multilabel`], [`load_tags`], [`load_srl`] or [`load_masks`].
    """
    digest = hashlib.sha256(" ".join(data.label_names).encode())
    for split in (*SPLITS, "unlabelled"):
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
    if isinstance(rows, Dataset) and IMAGE in rows.column_names:
        contents = map(image_content, image_cells(rows.select_columns([IMAGE])))
        hashes = (hashlib.sha256(content).digest() for content in contents)
        return _columns(rows.remove_columns([IMAGE])) | {IMAGE: b"".join(hashes)}
    if isinstance(rows, Dataset):
        return {name: _as_bytes(np.asarray(values)) for name, values in rows.with_format("numpy")[:].items()}
    return {name: np.ascontiguousarray(getattr(rows, name)).data for name in ("images", "masks")}


def _as_bytes(values: np.ndarray) -> bytes | memoryview:
    kind = NUMBERS.get(values.dtype.kind)
    return repr(values.tolist()).encode() if kind is None else np.ascontiguousarray(values, dtype=kind).data
