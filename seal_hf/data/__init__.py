"""Data sets: from files, folders, tables and Hub ids to splits. A split is a `datasets.Dataset`, or arrays for images
with masks. This room knows no model.

Each format has one reader, a row or a part at a time; training, prediction and evaluation use it. [`load_multilabel`]
reads: nothing, `digits` or `digit_images` -> the embedded data; a folder or file with .arff -> `mulan.py`; else the
tables that `table_sources.py` finds, files of lines, parquet, folders of `save_to_disk`, tables in memory and on the
Hub, by `label_tables.py`; a plain name -> that folder under `data_dir`. [`load_tags`], [`load_srl`] and [`load_trees`]
do the same for tag sequences, see `tags.py` and `trees.py`, and [`load_masks`] for images with masks. Rows to predict
are those of `label_rows.py`, `sentences.py` and `pictures.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from .arff_rows import is_arff
from .arguments import DataArguments, MaskDataArguments, TagDataArguments
from .brackets import tags_to_tree
from .column_choice import LABELS, Columns
from .common import NORMALIZE, DataError, MultiLabelData, Origins, find_data
from .digit_images import load_digit_images
from .digits import load_digit_groups
from .hierarchy import Pairs, with_hierarchy
from .label_tables import load_read, read_rows
from .line_files import SUFFIXES
from .masks import SegmentationData, load_masks
from .mulan import load_arff_folder
from .table_sources import check_one_kind, tables_of
from .tags import TagSequenceData, load_srl, load_tags
from .trees import load_trees
from .unlabelled import add_label_sets, check_numbers, limit_validation, part_label_sets

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
    "load_trees",
    "tags_to_tree",
]

EMBEDDED = {"digits": "features", "digit_images": "images"}  # name -> kind
OPTIONS = {"text_column": "texts", "image_column": "images", "normalize": "features", "keep_id": "features"}
DEFAULTS: dict[str, Any] = {**Columns()._asdict(), "normalize": None, "keep_id": False}


def load_multilabel(
    dataset: Any = None,
    *,
    data_dir: str | None = None,
    normalize: str | None = None,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    label_columns: str | Sequence[str] | None = None,
    label_format: str = "auto",
    label_separator: str | None = None,
    keep_id: bool = False,
    keep_root: bool = False,
    hierarchy: str | PathLike[str] | Pairs | None = None,
    max_train_rows: int | None = None,
    max_validation_rows: int | None = None,
    seed: int = 0,
    sample_weight: str | None = None,
    num_labelled: int | None = None,
    unlabelled: str | PathLike[str] | None = None,
) -> MultiLabelData:
    """Load a multi-label data set of features, of texts or of images.

    A table without splits is split 80/10/10, stratified by label. The loader's choices, and what looks wrong in the
    data, are in `notes`.

    Args:
        dataset: `digits` (default) or `digit_images`; a path: an ARFF, csv, tsv, jsonl, json or parquet file, a folder
            with one such file per split, or a folder of `save_to_disk`; a name under `data_dir`; `owner/name` on the
            Hub; or
            a table in memory: a `datasets.Dataset` or `DatasetDict`, a pandas frame, or a mapping of split names to
            these. ARFF holds features. A table without a column of texts (`text_column`, `text`, `sentence`, or strings
            that are no ids, dates or few repeated words) holds features: a column `features`, whose rows are lists of
            numbers of the same length, or all columns of numbers beside the labels. It holds images if it has a column
            of images, or of names of image files. All other data are texts.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        normalize: normalisation of features, fitted on train: `auto` (default: standard, but columns of 0 and 1 stay),
            `standard`, `minmax`, `none`.
        text_column: column of the texts; default: `text`, `sentence`, or the only column of strings beside the labels.
        image_column: column of images, or of names of files, which are relative to the table's folder or to `images` in
            it; default: the only one, or the first of `image`, `images`, `file_name`, `filename`, `file`, `image_path`,
            `path`.
        label_column: column of label sets: a list, a JSON list, a mapping of names to 0 and 1, a vector such as 01100
            or `[0 1 1]`, or values separated by a mark; a single value is a set of one. Default: `labels`, `label`,
            `cats`, or the only column of classes.
        label_columns: columns of 0 and 1, or yes and no, or x and nothing, one per label: names, or a text `a,b,c`; or
            `all_but text,id`, which names the columns that are not labels. Default, without a column of label sets: all
            columns beside the texts, if they are at least two and hold only such values.
        label_format: format of `label_column`: `ids` (numbers into `labels.txt`, or 0-based), `names`, `multi_hot`;
            `auto`: see [`label_matrix`]; classes of a `datasets` feature are ids. Names of ids are also read from
            `classes.txt`, `id2label.json`, `label2id.json` or `labels.json` beside the table.
        label_separator: the mark between labels of a cell, or `none`: each cell is one name. Default: the first of
            comma, semicolon or bar in a cell, or a mark that joins labels which stand alone in other cells.
        keep_id: keep an identifier attribute of an ARFF file.
        keep_root: keep the root of the class hierarchy of Clus ARFF files as a label, which every row has.
        hierarchy: hierarchy of the labels, a forest or a graph without cycles: a .csv or .tsv file, with child and
            parent in each line, or a list of such pairs. A row with a label gets all its ancestors, so label sets are
            closed. Clus ARFF files have their own hierarchy.
        max_train_rows: number of first training rows to keep; None keeps all.
        max_validation_rows: number of validation rows to keep, drawn with `seed`; None keeps all.
        seed: seed of splits that the data does not fix.
        sample_weight: column or ARFF attribute with numbers of at least 0: weights of the training rows in the task
            loss. Divided by their mean, they become the column `sample_weight` of `train`.
        num_labelled: this many of the training rows, drawn with `seed`, stay `train`; the others become `unlabelled`.
        unlabelled: a file or folder of further training rows without labels, which become `unlabelled`, too.

    Raises:
        DataError: the message says what is wrong, where, and what to do.
    """
    check_numbers(max_train_rows=max_train_rows, max_validation_rows=max_validation_rows, num_labelled=num_labelled)
    if normalize is not None and normalize not in NORMALIZE:
        raise DataError(f"`normalize` is {normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
    common: dict[str, Any] = {"max_train_rows": max_train_rows, "seed": seed}
    columns = Columns(
        text_column, label_column, label_columns, label_format, sample_weight, image_column, label_separator
    )
    dataset = fspath(dataset) if isinstance(dataset, PathLike) else dataset
    name = "digits" if dataset is None else dataset if isinstance(dataset, str) else "the table"
    embedded = isinstance(dataset, str | None) and name in EMBEDDED
    path = _find(dataset, data_dir)
    arff = path is not None and is_arff(path)
    if arff and path is not None and path.is_dir():
        check_one_kind(path, ".arff")
    if keep_root and not arff:
        raise DataError(f"`keep_root` is set, but {name} is not Clus ARFF with a class hierarchy. Leave it out.")
    reads = not arff and not embedded
    kind, read = EMBEDDED.get(name, "features"), None
    if reads:
        read = read_rows(tables_of(dataset, path, label_column or LABELS[0]), columns)
        inputs = read.inputs(columns)
        kind = inputs.kind
    options = {**columns._replace(sample_weight=None)._asdict(), "normalize": normalize, "keep_id": keep_id}
    _check_kind(name, kind, arff, embedded, options)
    scaling = normalize or "auto"
    if embedded and sample_weight is not None:
        raise DataError(f"`sample_weight` names a column, but {name} is embedded and has fixed columns. Leave it out.")
    if read is not None:
        data = load_read(read, inputs, columns, scaling, **common)
    elif embedded:
        data = load_digit_groups(scaling, **common) if kind == "features" else load_digit_images(**common)
    else:
        assert path is not None
        own: dict[str, Any] = {"keep_id": keep_id, "keep_root": keep_root, "sample_weight": sample_weight}
        data = load_arff_folder(path, normalize=scaling, **own, **common)
    data = data if hierarchy is None else with_hierarchy(data, hierarchy)
    limit_validation(data, max_validation_rows, seed)
    if num_labelled is not None:
        part_label_sets(data, num_labelled, seed)
    if unlabelled is not None:
        add_label_sets(data, fspath(unlabelled), text_column, image_column, sample_weight)
    return data


def _check_kind(name: str, kind: str, arff: bool, embedded: bool, given: dict[str, Any]) -> None:
    """Raises DataError for options of another kind of data. Users name the columns of data that are neither ARFF nor
    embedded.

    Args:
        given: option -> value.
    """
    named = not arff and not embedded
    if given["text_column"] is not None and given["image_column"] is not None:
        raise DataError("`text_column` and `image_column` are both given, but rows are texts or images. Leave one out.")
    if kind == "features" and not arff and given["keep_id"]:
        raise DataError(f"`keep_id` is an option of ARFF files, but {name} is not one. Leave it out.")
    kind = {"text": "texts"}.get(kind, kind)
    for option in (option for option, value in given.items() if value not in (DEFAULTS[option], "none")):
        owner = OPTIONS.get(option, "texts")
        if (option in Columns._fields and not named) or (option in OPTIONS and owner != kind):
            owner = "tables" if owner == kind else owner
            raise DataError(f"`{option}` is an option of {owner}, but {name} holds {kind}. Leave it out.")


def kind_of(
    dataset: str | None,
    data_dir: str | None = None,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    label_columns: str | Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> str:
    """`features`, `text` or `images`, as [`load_multilabel`] tells them by the first rows. A Hub id counts as texts,
    unless `image_column` is given."""
    if dataset is None or dataset in EMBEDDED:
        return EMBEDDED[dataset or "digits"]
    path = _find(dataset, data_dir)
    if path is None:
        return "text" if image_column is None else "images"
    if is_arff(path):
        return "features"
    columns = Columns(text_column, label_column, label_columns, "auto", sample_weight, image_column)
    try:
        tables = tables_of(dataset, path, label_column or LABELS[0])
        return read_rows(tables, columns, head=True).inputs(columns).kind
    except DataError:  # told again when the data is loaded
        return "text" if image_column is None else "images"


def _find(dataset: Any, data_dir: str | None) -> Path | None:
    """The path of a data set; None if it has none."""
    return find_data(dataset, data_dir, (".arff", *SUFFIXES, ".parquet"), list(EMBEDDED))
