"""Data sets: files, folders and Hub ids into splits: of `datasets.Dataset`, or, of images with masks, arrays. Knows no
model.

Dispatch of [`load_multilabel`]: nothing or `digits` -> the embedded data; a folder or file with .arff -> `mulan.py`;
csv, tsv, jsonl -> `text.py`; a plain name -> that folder under `data_dir`; `owner/name` -> the Hub. [`load_tags`] and
[`load_srl`] do the same for tag sequences, see `tags.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .arguments import DataArguments, MaskDataArguments, TagDataArguments
from .common import NORMALIZE, DataError, MultiLabelData, Origins, find_data
from .digits import load_digit_groups
from .hierarchy import Pairs, with_hierarchy
from .line_files import SUFFIXES
from .masks import SegmentationData, load_masks
from .mulan import load_arff_folder
from .tags import TagSequenceData, load_srl, load_tags
from .text import load_hub, load_text

__all__ = [
    "DataArguments",
    "DataError",
    "MultiLabelData",
    "SegmentationData",
    "MaskDataArguments",
    "Origins",
    "TagDataArguments",
    "TagSequenceData",
    "kind_of",
    "load_masks",
    "load_multilabel",
    "load_srl",
    "load_tags",
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
    keep_root: bool = False,
    hierarchy: str | os.PathLike[str] | Pairs | None = None,
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """A multi-label data set by name, folder, file or Hub id.

    Args:
        dataset: `digits` (default), a path, a name under `data_dir`, or `owner/name` on the Hub.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        normalize: of features: `none`, `minmax`, `standard`, `auto` (standard, but columns of 0 and 1 stay); fitted on
            train.
        text_column, label_column, label_format: of text, see `text.py`.
        keep_id: keep an identifier attribute of an ARFF file.
        keep_root: keep the root of the class hierarchy of Clus ARFF files as a label, which every row has.
        hierarchy: of the labels: a .csv or .tsv file, child and parent per line, or a list of such pairs; a forest, or
            a graph without cycles. Label sets are closed: a row with a label gets all ancestors of it. Clus ARFF files
            bring their own.
        max_train_rows: keep the first rows of the train split.
        seed: of splits that the data does not fix.

    Raises:
        DataError: what is wrong, where, and what to do.
    """
    if max_train_rows is not None and max_train_rows < 1:
        raise DataError(f"`max_train_rows` is {max_train_rows}; it must be at least 1.")
    if normalize not in NORMALIZE:
        raise DataError(f"`normalize` is {normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
    common: dict[str, Any] = {"max_train_rows": max_train_rows, "seed": seed}
    columns: dict[str, Any] = {"text_column": text_column, "label_column": label_column, "label_format": label_format}
    embedded = dataset is None or dataset == "digits"
    path = None if dataset is None or embedded else _find(dataset, data_dir)
    if keep_root and (path is None or not _is_arff(path)):
        name = dataset or "digits"
        raise DataError(f"`keep_root` is set, but {name} is no Clus ARFF with a class hierarchy. Leave it out.")
    features = embedded or (path is not None and _is_arff(path))
    _check_kind(dataset or "digits", features, normalize, keep_id, columns)
    if dataset is None or embedded:
        data = load_digit_groups(normalize, **common)
    elif path is None:
        data = load_hub(dataset, **columns, **common)
    elif _is_arff(path):
        data = load_arff_folder(path, normalize=normalize, keep_id=keep_id, keep_root=keep_root, **common)
    else:
        data = load_text(path, **columns, **common)
    return data if hierarchy is None else with_hierarchy(data, hierarchy)


def _check_kind(name: str, features: bool, normalize: str, keep_id: bool, columns: dict) -> None:
    """Raises DataError for options of features beside texts, or of texts beside features."""
    of_texts = {"text_column": None, "label_column": "labels", "label_format": "auto"}
    wrong = [option for option, default in of_texts.items() if features and columns[option] != default]
    wrong += [] if features else ["normalize"] * (normalize != "none") + ["keep_id"] * keep_id
    if wrong:
        kind, other = ("features", "texts") if features else ("texts", "features")
        raise DataError(f"`{wrong[0]}` is an option of {other}, but {name} holds {kind}. Leave it out.")


def kind_of(dataset: str | None, data_dir: str | None = None) -> str:
    """`features` or `text`, from names alone; nothing is parsed."""
    if dataset is None or dataset == "digits":
        return "features"
    path = _find(dataset, data_dir)
    return "features" if path is not None and _is_arff(path) else "text"


def _is_arff(path: Path) -> bool:
    return path.suffix == ".arff" or (path.is_dir() and any(path.glob("*.arff")))


def _find(dataset: str, data_dir: str | None) -> Path | None:
    """The path of a data set, or None for a Hub id."""
    return find_data(dataset, data_dir, (".arff", *SUFFIXES), "digits")
