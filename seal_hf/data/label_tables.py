"""Data with label sets: [`load_multilabel`], and texts, features or images from files of rows, folders of these, and
tables in memory, on disk or on the Hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, Image

from ..utils.messages import few
from .arff import ArffReader, find_arff, is_arff, load_arff_folder
from .column_choice import (
    FEATURES,
    LABELS,
    LOOKED_AT,
    MOSTLY,
    OF_SPLIT,
    PROBABILITIES,
    TEXTS,
    Chosen,
    Columns,
    Inputs,
    Rows,
    check_texts,
    choose,
    inputs_of,
    kind_of_strings,
    need_column,
    shown_values,
    text_cell,
)
from .common import (
    IMAGE,
    NORMALIZE,
    PAIR,
    DataError,
    MultiLabelData,
    Origins,
    feature_data,
    find_data,
    fixed_size_column,
    label_data,
    place_of,
)
from .embedded import load_digit_groups, load_digit_images
from .exports import rejected
from .feature_tables import are_lists, feature_lists, feature_names, feature_rows, has_features, number_columns
from .hierarchy import Pairs, with_hierarchy
from .hygiene import keys_of, name_notes, single_label_notes
from .image_tables import image_column, named_images, stored_images
from .label_cells import NONE, PLAIN, label_cell, layout_of
from .label_columns import column_labels, has_marks, say_yes_or_no
from .label_matrix import guess_format, label_matrix
from .label_rows import FeatureTable, ImageTable, TextReader, image_column_of, image_files, text_column_of
from .line_files import LINES, SUFFIXES
from .name_files import LABEL_LIST, names_beside, names_of_file
from .row_tables import LineTable, Table
from .separators import separator_notes, separator_of, split_joined
from .soft_labels import soft_matrix
from .splits import add_unlabelled, check_numbers, complete_splits, groups_of, limit_validation, parted, rows_taken
from .table_sources import SPLIT_WORDS, Tables, check_one_kind, open_table, tables_of
from .weights import read_weights, with_mean_1

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
        label_format: format of `label_column`: `ids` (numbers into `labels.txt`, or 0-based), `names`, `multi_hot`,
            `probabilities` (mappings of names to numbers from 0 to 1, or lists of these; also of `label_columns`): the
            training rows then have a column `soft_labels`, which the task loss reads in place of `labels`;
            `auto`: see [`label_matrix`]; classes of a `datasets` feature are ids. Names of ids are also read from
            `classes.txt`, `id2label.json`, `label2id.json` or `labels.json` beside the table.
        label_separator: the mark between labels of a cell, or `none`: each cell is one name. Default: the first of
            comma, semicolon or bar in a cell, one of them for all cells if there are fewer labels then, or a mark that
            joins labels which stand alone in other cells.
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
        _part(data, num_labelled, seed)
    if unlabelled is not None:
        _add(data, fspath(unlabelled), text_column, image_column, sample_weight)
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
    return find_data(dataset, data_dir, (".arff", *SUFFIXES, LINES, ".parquet"), list(EMBEDDED))


# --- tables -----------------------------------------------------------------------------------------------------------

CUT = 0.5  # the probability from which on a label counts as present, where labels are probabilities
BARE = ("", " If there are no labels, leave this split out: seal-hf predict reads it.")  # if it is the test split


@dataclass
class Reading:
    """What was read.

    Attributes:
        name: short name, for logs and the model card.
        source: file, folder or table, for messages.
        tables: split -> its table; the split is `all` if the data is not split.
        notes: what the loader did.
        splits: split -> column -> values.
        origins: the places of the rows, by split.
        names: label names in a `labels.txt` beside the table; None without it.
        names_of_ids: label names in another file beside the table, which are for ids alone, and the name of the file.
        classes: column -> class names, if the column itself has them.
        image: the column of images, or of names of their files.
        separator: the mark between labels of a cell, if the user or the column names one.
    """

    name: str
    source: str
    tables: dict[str, Table]
    notes: list[str]
    splits: dict[str, Rows] = field(default_factory=dict)
    origins: dict[str, Origins] = field(default_factory=dict)
    names: list[str] | None = None
    names_of_ids: tuple[list[str], str] | None = None
    classes: dict[str, list[str]] = field(default_factory=dict)
    image: str | None = None
    separator: str | None = None

    @property
    def first(self) -> Rows:
        """The rows of the first split."""
        return next(iter(self.splits.values()))

    def place(self, split: str, row: int | None = None) -> str:
        """The place of a mistake: a file and a line, or a table, a split and a row."""
        origins = self.origins.get(split)
        if origins is None or origins.lines is None:
            return place_of(self.source, split, row)
        return origins.source if row is None else f"{origins.source}, line {origins.lines[row]}"

    def inputs(self, columns: Columns) -> Inputs:
        """What the rows hold, see [`inputs_of`]."""
        head = {name: values[:LOOKED_AT] for name, values in self.first.items()}
        lists = has_features(next(iter(self.tables.values()))) or are_lists(head.get(FEATURES, ()))
        return inputs_of(columns, head, self.classes, lists, self.image)


def read_rows(tables: Tables, columns: Columns, head: bool = False) -> Reading:
    """Read tables. Label names may stand in a file beside them; a column of classes names its labels.

    Args:
        tables: by split. Of files of lines, the first row names the columns; a tsv beside a `labels.txt` has no header,
            and its columns are text, ids, id.
        columns: the columns that are asked for.
        head: read only the first rows of the first table, which tell what the inputs are.

    Raises:
        DataError: the message names the file, the column or the row.
    """
    found = Reading(tables.name, tables.source, tables.splits, tables.notes)
    _find_label_names(found, tables)
    asked, (first, table) = (columns.image_column, columns.text_column), next(iter(tables.splits.items()))
    if head:
        found.splits[first] = table.head(LOOKED_AT)
    elif table.features:  # images and lists of features are read where they are needed
        found.image = image_column(table.features, table.head(LOOKED_AT), *asked)
    for split, table in () if head else tables.splits.items():
        unread = {found.image or "", FEATURES if has_features(table) else ""} if table.features else set()
        found.splits[split], found.origins[split] = table.read(unread)
        found.notes += table.notes
    for split, table in tables.splits.items():
        known = table.classes
        for column in known.keys() & found.classes.keys():
            if known[column] != found.classes[column]:
                raise DataError(
                    f"{place_of(tables.source, split)}: the classes of {column!r} are {few(known[column], 5)}, but "
                    f"those of the split before are {few(found.classes[column], 5)}. Cast both to one ClassLabel."
                )
        found.classes = {**known, **found.classes}
    if head or found.image is None:
        shown = {name: values[:LOOKED_AT] for name, values in found.first.items()}
        found.image = image_column(tables.splits[first].features, shown, *asked)
    return found


def _find_label_names(found: Reading, tables: Tables) -> None:
    path = tables.path
    if path is None:
        return
    labels = (path if path.is_dir() else path.parent) / LABEL_LIST
    if labels.is_file() and isinstance(next(iter(tables.splits.values())), LineTable):
        found.names = names_of_file(labels)
        if not path.is_dir():
            found.notes.append(f"label names from {LABEL_LIST}.")
    else:
        found.names_of_ids = names_beside(path)


def load_read(
    found: Reading,
    inputs: Inputs,
    columns: Columns,
    normalize: str = "auto",
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """The data set of what was read.

    Args:
        found, inputs: of [`read_rows`].
        columns: the columns that are asked for. A cell with a label set is read by [`label_cell`].
        normalize: normalisation of features.
        max_train_rows, seed: as for [`load_multilabel`].

    Raises:
        DataError: the message names the file, the column or the row.
    """
    source, notes = found.source, found.notes
    first = next(iter(found.splits))
    chosen = choose(columns, found.splits[first], found.classes, found.place(first), inputs)
    notes += [chosen.note] if chosen.note else []
    read_from = {*chosen.inputs, chosen.labels, *chosen.each}
    notes += _split_column_note({n: v for n, v in found.splits.get("all", {}).items() if n not in read_from})
    for split, rows in found.splits.items():
        if new := [name for name in rows if name not in found.splits[first]]:
            notes.append(f"columns of the {split} split that the {first} split lacks are not read: {few(new, 5)}.")
    if inputs.kind == "text" and columns.text_column is None:
        if has_features(next(iter(found.tables.values()))):
            notes.append(f"the texts are read, not the column {FEATURES!r}: remove the texts to train on it.")
    _leave_out_unlabelled(found, chosen)
    values = _inputs(found, inputs, chosen)
    _leave_out_rejected(found, chosen, values)
    for split, rows in found.splits.items():
        for name in chosen.each if chosen.labels is None else [chosen.labels]:
            flag = "label_columns" if chosen.labels is None else "label_column"
            need_column(name, rows, flag, found.place(split), BARE[split == "test"])
    soft: dict[str, np.ndarray] = {}
    if columns.label_format == PROBABILITIES:
        soft, names = _soft_labels(found, chosen)
        labels = {split: np.where(rows < 0, -1, rows >= CUT).astype(np.float32) for split, rows in soft.items()}
        notes.append(
            f"labels are probabilities: the task loss reads them, all else takes those from {CUT} on as labels."
        )
    elif chosen.labels is None:
        labels, names = _label_columns(found, chosen.each), chosen.each
    else:
        labels, names = _label_sets(found, chosen.labels, columns)
    notes += name_notes(names, sum((matrix > 0).sum(0) for matrix in labels.values()).tolist())
    notes += single_label_notes(np.concatenate([(matrix > 0).sum(1) for matrix in labels.values()]), len(names))
    parts = complete_splits(labels, seed, notes, _copies(values))
    weights = _weights(found, columns.sample_weight, *parts["train"], max_train_rows)
    train, rows_of_train = parts["train"]
    of_train = soft[train][rows_of_train] if soft else None
    targets = {split: labels[key][ids] for split, (key, ids) in parts.items()}
    origins = {split: found.origins[key].take(ids) for split, (key, ids) in parts.items()}
    if inputs.kind == "features":
        arrays = {split: (values[key][ids], targets[split]) for split, (key, ids) in parts.items()}
        of_features = chosen.inputs
        if of_features == [FEATURES]:
            of_features = feature_names(arrays["train"][0].shape[1])
        data = feature_data(
            found.name, arrays, origins, of_features, names, normalize, source, notes, max_train_rows, weights, of_train
        )
    else:
        of_splits = {split: _take(values[key], ids) for split, (key, ids) in parts.items()}
        data = label_data(
            found.name, source, of_splits, targets, origins, names, notes, max_train_rows, weights, of_train
        )
    data.columns = _columns_read(inputs, chosen, found.separator)
    table = next(iter(found.tables.values()))
    if isinstance(table, LineTable) and table.indices is not None:
        data.columns["first_index"] = table.indices.first
    return data


def _copies(values: Mapping[str, Any]) -> np.ndarray | None:
    """A number for each row of the part that is split here, the same for rows with the same input, which stay together.
    Empty texts differ. None without such rows, or if one input stands in more than a tenth of the rows: it would fill a
    split."""
    split = "all" if "all" in values else "train"
    if split not in values or "validation" in values:
        return None
    groups = groups_of(key or row for row, key in enumerate(keys_of(values[split])))
    return groups if 1 < np.bincount(groups).max(initial=0) <= len(groups) / 10 else None


def _columns_read(inputs: Inputs, chosen: Chosen, separator: str | None) -> dict[str, Any]:
    """The columns that differ from the usual ones, for `config.inputs`."""
    found: dict[str, Any] = {}
    if inputs.kind == "text" and chosen.inputs != ["text"]:
        found["text_column"] = ",".join(chosen.inputs)
    if inputs.kind == "images" and chosen.inputs != [IMAGE]:
        found["image_column"] = chosen.inputs[0]
    if inputs.kind == "features" and chosen.inputs != [FEATURES]:
        found["feature_columns"] = chosen.inputs
    if chosen.labels not in (None, LABELS[0]):
        found["label_column"] = chosen.labels
    if separator is not None:
        found["label_separator"] = separator
    return found


def _take(values: Any, ids: np.ndarray) -> Any:
    return values.select(ids) if isinstance(values, Dataset) else [values[i] for i in ids]


def _inputs(found: Reading, inputs: Inputs, chosen: Chosen) -> dict[str, Any]:
    """Split -> its texts, pairs of texts, features (N, F) or images."""
    if inputs.kind == "text":
        return _texts(found, chosen.inputs)
    values: dict[str, Any] = {}
    size = None
    for split, rows in found.splits.items():
        missing = [name for name in chosen.inputs if name not in rows and name != FEATURES]
        if missing and inputs.kind == "features":
            raise DataError(f"{found.place(split)} has no column {missing[0]!r}, which is a feature in another split.")
        for name in missing:
            need_column(name, rows, "image_column", found.place(split))
        place, table = partial(found.place, split), found.tables[split]
        if inputs.kind == "images":
            values[split] = _images(found, split, chosen.inputs[0])
        elif chosen.inputs != [FEATURES]:
            values[split] = number_columns({name: rows[name] for name in chosen.inputs}, place)
        else:
            if table.features and (has_features(table) or not rows.get(FEATURES)):
                values[split] = feature_rows(table, found.source, split, size)
            else:
                values[split] = feature_lists(rows[FEATURES], size, place)
            size = values[split].shape[1] or size
    return values


def _images(found: Reading, split: str, column: str) -> Dataset:
    place, table = partial(found.place, split), found.tables[split]
    if table.data is not None:
        return stored_images(table.data, column, table.folder, found.place(split), place)
    names = found.splits[split][column]
    found.origins[split] = replace(found.origins[split], files=np.array(names, dtype=object))
    return named_images(names, table.folder, place)


def _leave_out_rejected(found: Reading, chosen: Chosen, values: dict[str, Any]) -> None:
    """Leave out rows that annotators rejected or did not answer, in place."""
    several = {name: [v for rows in found.splits.values() for v in rows.get(name, ())] for name in ("answer", "status")}
    column = rejected(several, (*chosen.inputs, chosen.labels, *chosen.each))
    if column is None:
        return
    name, words = column
    count = 0
    for split, rows in found.splits.items():
        kept = np.array([value.lower() not in words for value in rows[name]])
        ids, count = np.flatnonzero(kept), count + int((~kept).sum())
        found.splits[split] = {column: [cells[i] for i in ids] if cells else cells for column, cells in rows.items()}
        found.origins[split] = found.origins[split].take(ids)
        values[split] = values[split][ids] if isinstance(values[split], np.ndarray) else _take(values[split], ids)
    found.notes.append(f"{count} rows left out: {name!r} says that they were rejected or not annotated.")


def _texts(found: Reading, columns: Sequence[str]) -> dict[str, list]:
    """The texts of each split, from one column or as pairs from two."""
    parts = []
    for column in columns:
        texts = {}
        for split, rows in found.splits.items():
            need_column(column, rows, "text_column", found.place(split))
            if column.lower() not in TEXTS:
                check_texts(rows[column], column, found.place(split))
            elif (kind := kind_of_strings(rows[column])) and split == next(iter(found.splits)):
                example = str(shown_values(rows[column])[0])[:60]
                found.notes.append(f"the column {column!r} holds {kind}, such as {example!r}: is it that of the texts?")
            texts[split] = [text_cell(v, found.place(split, row)) for row, v in enumerate(rows[column])]
        found.notes += _empty_texts_note(texts, column, found.place)
        parts.append(texts)
    if len(parts) == 1:
        return parts[0]
    found.notes.append(f"pairs of texts: {' and '.join(map(repr, columns))}.")
    return {split: [*zip(*(texts[split] for texts in parts), strict=True)] for split in found.splits}


def _weights(
    found: Reading, column: str | None, split: str, ids: np.ndarray, max_train_rows: int | None
) -> np.ndarray | None:
    """Weights of the first training rows; `ids` says which rows of the split these are."""
    if column is None:
        return None
    need_column(column, found.splits[split], "sample_weight", found.place(split))
    weights = read_weights(found.splits[split][column], column, partial(found.place, split))[ids][:max_train_rows]
    weights, note = with_mean_1(weights, column, found.source)
    found.notes.append(note)
    return weights


def _label_columns(found: Reading, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Label sets, (N, L) by split, from one column per label."""
    matrices = {}
    marks = has_marks(rows.get(name, ()) for rows in found.splits.values() for name in names)
    for split, rows in found.splits.items():
        place = partial(found.place, split)
        matrices[split] = column_labels({name: rows[name] for name in names}, place, marks, found.classes)
    named = {name: found.classes[name] for name in names if not say_yes_or_no(found.classes.get(name, ("no", "yes")))}
    ones = [f"{name} is 1 for {values[1]!r}" for name, values in named.items()]
    found.notes += [f"columns of classes: {few(ones, 5)}."] if ones else []
    return matrices


def _soft_labels(found: Reading, chosen: Chosen) -> tuple[dict[str, np.ndarray], list[str]]:
    """Probabilities of labels, (N, L) by split, -1 for unknown, and label names."""
    cells: dict[str, Sequence[Any]] = {}
    for split, rows in found.splits.items():
        values = zip(*(rows[name] for name in chosen.each), strict=True)
        each = [dict(zip(chosen.each, row, strict=True)) for row in values]
        cells[split] = each if chosen.labels is None else rows[chosen.labels]
    known = None if chosen.labels is None else found.names or (found.names_of_ids or [None])[0]
    return soft_matrix(cells, chosen.each or known, found.place)


def _label_sets(found: Reading, column: str, columns: Columns) -> tuple[dict[str, np.ndarray], list[str]]:
    """Label sets, (N, L) by split, and label names, from one column of label sets."""
    label_format, mark = columns.label_format, columns.label_separator
    raw = {split: rows[column] for split, rows in found.splits.items()}
    classes = found.classes.get(column)
    layout = layout_of(chain(*raw.values()), "ids" if classes else label_format, mark)
    found.notes += [layout.note] if layout.note else []
    raw = {split: [*map(layout.read, rows)] for split, rows in raw.items()}
    if mark is None and layout is PLAIN and label_format in ("auto", "names"):
        mark, notes = separator_of(chain(*raw.values()))
        found.notes += notes
    found.separator = mark
    cells = {
        split: [label_cell(v, found.place(split, i), mark) for i, v in enumerate(rows)] for split, rows in raw.items()
    }
    if mark not in (None, NONE) and not layout.vectors and not any(mark in str(v) for v in chain(*raw.values())):
        found.notes.append(f"{mark!r}, the label_separator, is in no cell: each cell is one label.")
    values = [*chain(*cells.values())]
    if layout.vectors:
        label_format = "multi_hot"
    elif classes and label_format == "auto" and all(len(set(cell)) == len(cell) for cell in values):
        label_format = "ids"
    known = classes or found.names
    file = LABEL_LIST if known and not classes else None
    form = guess_format(values, None) if label_format == "auto" else label_format
    if form != label_format and form == "multi_hot" and all(sorted(map(str, cell)) == ["0", "1"] for cell in values):
        found.notes.append(
            "each row has a 0 and a 1, read as absent and present, for two labels. If they are ids, each row has both "
            "labels: give label_format='ids' (--label_format ids)."
        )
    if form == "names" and not classes and mark is None:
        cells, notes = split_joined(cells, known, raw)
        found.notes += notes
        values = [*chain(*cells.values())]
    if known is None and found.names_of_ids is not None:
        names, file = found.names_of_ids
        ids = [str(v).isdigit() and int(v) < len(names) for cell in values for v in cell if v is not None]
        if form == "names" and label_format == "auto" and ids and sum(ids) >= MOSTLY * len(ids):
            label_format = form = "ids"  # the others are mistakes, which are named
        if form == "ids" or (form == "multi_hot" and {len(cell) for cell in values} == {len(names)}):
            known = names
            found.notes.append(f"label names from {file}.")
    labels, names = label_matrix(cells, known, label_format, found.source, found.place, file=file)
    if known and not classes and form == "ids" and not any((matrix[:, 0] > 0).any() for matrix in labels.values()):
        found.notes.append(f"no row has the id 0, {names[0]!r}. Ids count from 0: do those of the data count from 1?")
    if not known:
        found.notes += separator_notes(chain(*raw.values()), names) if mark is None and form == "names" else []
        unused = int((sum((matrix != 0).sum(0) for matrix in labels.values()) == 0).sum())
        if unused and form == "ids":
            found.notes.append(
                f"{unused} of {len(names)} labels occur in no row: numbers are ids, counted from 0. If they are names, "
                "give label_format='names' (--label_format names)."
            )
    return labels, names


def _split_column_note(rows: Rows) -> list[str]:
    """A note on a column of a table without splits that names a split for each row: it is not read."""
    words = {word for known in SPLIT_WORDS.values() for word in known}
    for name, values in rows.items():
        if OF_SPLIT.fullmatch(name) or (
            all(isinstance(value, str) and value.lower() in words for value in values) and len(set(values)) > 1
        ):
            return [
                f"the column {name!r} names splits, but is not read: give a table for each split, such as train.csv."
            ]
    return []


def _leave_out_unlabelled(found: Reading, chosen: Chosen) -> None:
    """Leave out a test split of the Hub with secret labels: all its classes are -1."""
    if chosen.labels in found.classes and set(map(str, found.splits.get("test", {}).get(chosen.labels, []))) == {"-1"}:
        found.notes.append(f"the test split is left out: all its labels in {chosen.labels!r} are -1, unknown.")
        del found.splits["test"]


def _empty_texts_note(texts: dict[str, list[str]], column: str, place: Callable[[str], str]) -> list[str]:
    """Count the empty texts, whose rows are kept.

    Raises:
        DataError: all texts of a split are empty.
    """
    empty = {split: sum(not text.strip() for text in rows) for split, rows in texts.items()}
    for split, rows in texts.items():
        if rows and empty[split] == len(rows):
            raise DataError(
                f"{place(split)}: all {len(rows)} texts are empty or null, in column {column!r}. Name the "
                "column with the text by `text_column` (--text_column), or fill it in."
            )
    total = sum(map(len, texts.values()))
    return [f"{sum(empty.values())} of {total} texts are empty (kept)."] if any(empty.values()) else []


# --- rows without gold ------------------------------------------------------------------------------------------------

GOLD = ("labels", "soft_labels", "sample_weight")  # columns that rows without gold lack


def _part(data: MultiLabelData, num_labelled: int, seed: int) -> None:
    """Put aside the gold of all but so many training rows, in place."""
    kept, others = parted(len(data.train), num_labelled, seed, data.name, data.notes)
    columns = [name for name in data.train.column_names if name not in GOLD]
    data.unlabelled = rows_taken(data.train.select_columns(columns), others) if len(others) else None
    data.train = rows_taken(data.train, kept)
    if "train" in data.origins:
        data.origins["train"] = data.origins["train"].take(kept)


def _add(
    data: MultiLabelData,
    file: str,
    text_column: str | None,
    image_column: str | None,
    sample_weight: str | None = None,
) -> None:
    """Add the rows of a file without gold, in place. It is read as for `seal-hf predict`: a table of the same columns,
    an ARFF file, or images; labels and weights in it are ignored, and of a folder the training rows are taken.

    Raises:
        DataError: names the file, the column or the row.
    """
    table: Table | None = None
    if data.kind == "features":
        reader: Any
        if is_arff(file):
            unread = [] if sample_weight is None else [sample_weight]
            reader = ArffReader(find_arff(file, None, "train"), data.label_names, data.num_features, unread=unread)
            data.notes += reader.notes
        else:
            table = open_table(file, usual="train")
            reader = FeatureTable(table, data.num_features, trained=data.columns)
        parts = [chunk.inputs for chunk in reader.chunks(LOOKED_AT)]
        values = np.concatenate(parts) if parts else np.zeros((0, data.num_features), np.float32)
        rows = Dataset(pa.table({"features": fixed_size_column(values)}))
    elif data.kind == "images":
        images = image_files(file)
        if images is None:
            table = open_table(file, usual="train")
            images = ImageTable(table, image_column_of(table, image_column, data.columns.get("image_column")))  # type: ignore[assignment]
        cells = [cell for chunk in images.chunks(LOOKED_AT) for cell in chunk.inputs]  # type: ignore[union-attr]
        stored = [cell if isinstance(cell, dict) else {"bytes": None, "path": cell} for cell in cells]
        rows = Dataset.from_dict({IMAGE: stored}).cast_column(IMAGE, Image())
    else:
        table, pairs = open_table(file, usual="train"), PAIR[1] in data.train.column_names
        reader = TextReader(
            table, text_column_of(table, text_column, data.columns.get("text_column"), "labels", pairs or None)
        )
        texts = [text for chunk in reader.chunks(LOOKED_AT) for text in chunk.inputs]
        columns = zip(*texts, strict=True) if pairs else [texts]
        names = PAIR if pairs else PAIR[:1]
        rows = Dataset(pa.table({name: pa.array(c, pa.string()) for name, c in zip(names, columns, strict=True)}))
    data.notes += [table.note] if table is not None and table.note else []
    add_unlabelled(data, rows, file, "rows without labels")
