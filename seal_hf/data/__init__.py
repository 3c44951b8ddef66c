"""Data sets: files, folders and Hub ids into splits: of `datasets.Dataset`, or, of images with masks, arrays. Knows no
model.

Dispatch of [`load_multilabel`]: nothing or `digits` -> the embedded data; a folder or file with .arff -> `mulan.py`;
csv, tsv, jsonl -> `text.py`; a plain name -> that folder under `data_dir`; `owner/name` -> the Hub.
"""

from __future__ import annotations

import os
from pathlib import Path

from .arguments import DataArguments
from .common import NORMALIZE, DataError, MultiLabelData, did_you_mean
from .digits import load_digit_groups
from .masks import SegmentationData, load_masks
from .mulan import load_arff_folder
from .text import SUFFIXES, load_hub, load_text

__all__ = [
    "DataArguments",
    "DataError",
    "MultiLabelData",
    "SegmentationData",
    "kind_of",
    "load_masks",
    "load_multilabel",
]


def load_multilabel(
    dataset: str | None = None,
    *,
    data_dir: str | None = None,
    normalize: str = "none",
    text_column: str | None = None,
    label_column: str = "labels",
    label_format: str = "auto",
    keep_id: bool = False,
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """A multi-label data set by name, folder, file or Hub id.

    Args:
        dataset: `digits` (default), a path, a name under `data_dir`, or `owner/name` on the Hub.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        normalize: of features: `none`, `minmax`, `standard`; fitted on train.
        text_column, label_column, label_format: of text, see `text.py`.
        keep_id: keep an identifier attribute of an ARFF file.
        max_train_rows: keep the first rows of the train split.
        seed: of splits that the data does not fix.

    Raises:
        DataError: what is wrong, where, and what to do.
    """
    if max_train_rows is not None and max_train_rows < 1:
        raise DataError(f"`max_train_rows` is {max_train_rows}; it must be at least 1.")
    if normalize not in NORMALIZE:
        raise DataError(f"`normalize` is {normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
    common = {"max_train_rows": max_train_rows, "seed": seed}
    columns = {"text_column": text_column, "label_column": label_column, "label_format": label_format}
    if dataset in (None, "digits"):
        return load_digit_groups(normalize, **common)
    path = _find(dataset, data_dir)
    if path is None:
        return load_hub(dataset, **columns, **common)
    if _is_arff(path):
        return load_arff_folder(path, normalize=normalize, keep_id=keep_id, **common)
    return load_text(path, **columns, **common)


def kind_of(dataset: str | None, data_dir: str | None = None) -> str:
    """`features` or `text`, from names alone; nothing is parsed."""
    if dataset in (None, "digits"):
        return "features"
    path = _find(dataset, data_dir)
    return "features" if path is not None and _is_arff(path) else "text"


def _is_arff(path: Path) -> bool:
    return path.suffix == ".arff" or (path.is_dir() and any(path.glob("*.arff")))


def _find(dataset: str, data_dir: str | None) -> Path | None:
    """The path of a data set, or None for a Hub id."""
    path = Path(dataset)
    if path.is_dir() or (path.is_file() and path.suffix in (".arff", *SUFFIXES)):
        return path
    if path.is_file():
        raise DataError(
            f"{dataset}: files of type {path.suffix!r} are not read; expected .arff, {', '.join(SUFFIXES)}."
        )
    data_dir = data_dir or os.environ.get("SEAL_HF_DATA")
    is_name = "/" not in dataset and "\\" not in dataset
    if data_dir and is_name:
        for candidate in (Path(data_dir) / dataset, *sorted(Path(data_dir).glob(f"*/{dataset}"))):
            if candidate.is_dir():
                return candidate
    if is_name or path.suffix in (".arff", *SUFFIXES) or dataset.count("/") != 1 or dataset.startswith((".", "/")):
        looked = f"{data_dir} and its folders" if data_dir else "no data_dir was given (--data_dir or SEAL_HF_DATA)"
        names = [folder.name for folder in Path(data_dir or ".").glob("*/*") if data_dir and folder.is_dir()]
        raise DataError(
            f"Data set {dataset!r} not found: no such folder or file; as a name: {looked}; and it is no Hub id "
            f"(owner/name).{did_you_mean(dataset, [*names, 'digits'])} Give a path, or leave --dataset out for the "
            f"embedded digits."
        )
    return None
