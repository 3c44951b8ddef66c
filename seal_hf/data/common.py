"""Code that loaders share: finding data, seeded splits, checks, and the multi-label result with its normalisation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.hierarchy import Hierarchy
from ..utils.messages import brief, did_you_mean, few
from .hygiene import keys_of, repeat_notes
from .late import datasets, pa

if TYPE_CHECKING:
    from datasets import Dataset

IMAGE = "image"  # column of images
PAIR = ("text", "text_pair")  # columns of a pair of texts, as tokenizers and pipelines call them
SPLITS = ("train", "validation", "test")
WRITE_ZERO = "If an empty cell or -1 means that a row lacks the label, write 0 there."
NORMALIZE = ("none", "minmax", "standard", "auto")


class DataError(ValueError):
    """A mistake in the data or in the request for it; the message names the file, the row or the column."""


def place_of(source: str, split: str, row: int | None = None) -> str:
    """The place of a mistake: `source, train split, row 3`; a single file has no splits yet."""
    place = source if split == "all" else f"{source}, {split} split"
    return place if row is None else f"{place}, row {row} (counting from 0)"


class Scaling(NamedTuple):
    """Normalisation of features: x -> (x - shift) * scale, with shift and scale (F,). The model saves it."""

    shift: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True)
class Origins:
    """The places from which the N rows of a split were read.

    Attributes:
        source: a file, a folder of images, or a Hub id or an embedded data set with the name of its split.
        lines: (N,) for files of lines: the line on which each row begins, counted from 1 as editors do.
        rows: (N,) for other data: the number of each row in `source`, counted from 0.
        files: (N,) for images: the names of their files in `source`.
        ids: (N,) values of the column `id`, or of the identifier attribute of ARFF files; None if there is none.
    """

    source: str
    lines: np.ndarray | None = None
    rows: np.ndarray | None = None
    files: np.ndarray | None = None
    ids: np.ndarray | None = None

    def __len__(self) -> int:
        return next(len(column) for column in (self.lines, self.rows, self.files) if column is not None)

    def of(self, i: int) -> dict[str, Any]:
        """The place of row i of the split, for JSON: `source`, and the known ones of `line`, `row`, `file` and `id`."""
        columns = {"line": self.lines, "row": self.rows, "file": self.files, "id": self.ids}
        values = {name: column.item(i) for name, column in columns.items() if column is not None}
        return {"source": self.source, **values}

    def place(self, i: int) -> str:
        """The place of row i of the split, for messages."""
        if self.lines is not None:
            return f"{self.source}, line {self.lines[i]}"
        return f"{self.source}, row {i if self.rows is None else self.rows[i]} (counting from 0)"

    def take(self, rows: np.ndarray | Sequence[int] | slice) -> Origins:
        """The origins of these rows, in their order."""
        columns = (self.lines, self.rows, self.files, self.ids)
        return Origins(self.source, *(None if column is None else column[rows] for column in columns))


def id_column(values: Sequence[Any] | None) -> np.ndarray | None:
    """(N,) ids as objects that JSON can hold; None without values."""
    if values is None:
        return None
    ids = np.empty(len(values), dtype=object)
    ids[:] = [value if isinstance(value, (str, int, float, type(None))) else str(value) for value in values]
    return ids


@dataclass
class MultiLabelData:
    """A multi-label data set.

    Attributes:
        name: short name, for logs and the model card.
        kind: `features` (column `features`, float32 of a fixed length), `text` (column `text`) or `images` (column
            `image`, a `datasets.Image`).
        train, validation, test: data sets; column `labels` is a multi-hot float32 vector over `label_names`, -1 for an
            unknown label. `train` may have the columns `sample_weight`, and `soft_labels` of probabilities. `test` may
            be None.
        label_names: names of the L labels.
        feature_names: names of the features; empty for texts and images.
        notes: what the loader did to the data, with counts.
        scaling: normalisation of the features, fitted on train; the data sets hold the features without it.
        origins: the places of the rows, by split.
        hierarchy: hierarchy of the L labels, under which every label set is closed; None if there is none.
        unlabelled: with `num_labelled` or `unlabelled`, training rows without `labels`.
        columns: the columns of a table that were read, if they have no usual names, for `config.inputs`.
    """

    name: str
    kind: str
    train: Dataset
    validation: Dataset
    test: Dataset | None
    label_names: list[str]
    feature_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    scaling: Scaling | None = None
    origins: dict[str, Origins] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None
    unlabelled: Dataset | None = None
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def num_features(self) -> int:
        """Number of input features of feature data."""
        return len(self.feature_names)

    @property
    def label_rates(self) -> np.ndarray:
        """(L,) share of rows with each label among the training rows in which it is known. Half a row of smoothing
        keeps it above 0 and below 1."""
        labels = np.asarray(self.train.with_format("numpy")["labels"][:])
        return ((labels > 0).sum(0, dtype=np.float64) + 0.5) / ((labels >= 0).sum(0) + 1)


def check_labels_differ(data: MultiLabelData) -> None:
    """Raises DataError if all rows of all splits have the same labels, which any net would give with an F1 of 1."""
    splits = [split for split in (data.train, data.validation, data.test) if split is not None]
    labels = np.concatenate([np.asarray(split.with_format("numpy")["labels"][:]) for split in splits])
    if (labels == labels[0]).all():
        same = few([data.label_names[i] for i in np.flatnonzero(labels[0] > 0).tolist()], 5) or "none"
        raise DataError(
            f"{data.name}: all {len(labels)} rows have the same labels ({same}), so there is nothing to learn. Name "
            "the columns of the labels by `label_column` (--label_column) or `label_columns` (--label_columns), or "
            "give rows that differ."
        )


def find_data(dataset: Any, data_dir: str | None, suffixes: Sequence[str], embedded: Sequence[str] = ()) -> Path | None:
    """The path of a data set given as a file, a folder, or a name under `data_dir`; None for one that is embedded, a
    Hub id, or a table in memory.

    Args:
        dataset: what was given; None for the first embedded one.
        suffixes: endings of files that can be read; empty for any.
        embedded: names of the embedded data sets.

    Raises:
        DataError: the file, folder or name does not exist, files of its type cannot be read, or `data_dir` is given
            and not read.
    """
    found = _found(dataset, data_dir, suffixes, embedded)
    if data_dir is None or (found is not None and found in (Path(data_dir, dataset), *Path(data_dir).glob("*/*"))):
        return found
    if dataset is None or (isinstance(dataset, str) and dataset in embedded):
        what = f"{dataset or embedded[0]} is embedded"
    elif isinstance(dataset, str):
        what = f"{dataset} is {'a Hub id' if found is None else 'a path'}"
    else:
        what = "a table is given"
    raise DataError(
        f"`data_dir` is {brief(data_dir)}, a folder of named data sets, but {what}. Leave it out, or give `dataset` "
        "(--dataset) such a name."
    )


def unread_type(path: Path, suffixes: Sequence[str]) -> DataError:
    return DataError(
        f"{path}: files of type {path.suffix!r} are not read; expected {', '.join(suffixes)}. Unpack an archive, and "
        "save a sheet as .csv in UTF-8."
    )


def _found(dataset: Any, data_dir: str | None, suffixes: Sequence[str], embedded: Sequence[str]) -> Path | None:
    if dataset is None or not isinstance(dataset, str) or dataset in embedded:
        return None
    if not dataset:
        raise DataError("The name of the data set is empty. Give a path, a name or a Hub id; is a variable unset?")
    path = Path(dataset)
    if path.is_dir() or (path.is_file() and (not suffixes or path.suffix.lower() in suffixes)):
        return path
    if path.is_file():
        raise unread_type(path, suffixes)
    data_dir = data_dir or os.environ.get("SEAL_HF_DATA")
    is_name = "/" not in dataset and "\\" not in dataset
    if data_dir and is_name:
        for candidate in (Path(data_dir) / dataset, *sorted(Path(data_dir).glob(f"*/{escape(dataset)}"))):
            if candidate.is_dir():
                return candidate
    if is_name or path.suffix.lower() in suffixes or dataset.count("/") != 1 or dataset.startswith((".", "/")):
        looked = f"{data_dir} and its folders" if data_dir else "no data_dir was given (--data_dir or SEAL_HF_DATA)"
        names = [folder.name for folder in Path(data_dir or ".").glob("*/*") if data_dir and folder.is_dir()]
        hint = did_you_mean(dataset, [*names, *embedded[:1]])
        other = f", or leave `dataset` (--dataset) out for the embedded {embedded[0]}" if embedded else ""
        raise DataError(
            f"Data set {dataset!r} not found: no such folder or file; as a name: {looked}; and not a Hub id "
            f"(owner/name).{hint} Give a path{other}."
        )
    return None


def fixed_size_column(values: np.ndarray) -> pa.Array:
    """(N, M) -> an Arrow column of N float32 rows, without a Python loop."""
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def make_dataset(
    inputs: np.ndarray | Dataset | Sequence[str] | Sequence[tuple[str, str]],
    labels: np.ndarray,
    weights: np.ndarray | None = None,
    soft: np.ndarray | None = None,
) -> Dataset:
    """A split from features (N, F), N texts, N pairs of texts or a column of N images; labels (N, L); weights (N,) of
    rows; probabilities of labels (N, L)."""
    columns: dict[str, pa.Array]
    if isinstance(inputs, np.ndarray):
        columns = {"features": fixed_size_column(inputs)}
    elif isinstance(inputs, datasets.Dataset):
        columns = {}  # joined below
    elif inputs and isinstance(inputs[0], tuple):
        parts = zip(*inputs, strict=True)
        columns = {name: pa.array(part, type=pa.string()) for name, part in zip(PAIR, parts, strict=True)}
    else:
        columns = {"text": pa.array(inputs, type=pa.string())}
    if weights is not None:
        columns["sample_weight"] = pa.array(weights, type=pa.float32())
    if soft is not None:
        columns["soft_labels"] = fixed_size_column(soft)
    table = datasets.Dataset(pa.table({**columns, "labels": fixed_size_column(labels)}))
    if not isinstance(inputs, datasets.Dataset):
        return table
    images = inputs if inputs._indices is None else inputs.flatten_indices()  # else `datasets` flattens both
    return datasets.concatenate_datasets([images, table], axis=1)


def check_finite(features: np.ndarray, names: Sequence[str], source: str) -> None:
    """Raises DataError that names the first row and column with a NaN or infinite value."""
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{source}: {len(bad)} values are NaN (or missing) or infinite, the first in row {row} (counting from 0), "
            f"column {names[column]!r}: {features[row, column]}. Remove these rows or fill in the values."
        )


def check_splits(sizes: dict[str, int], source: str) -> None:
    """Raises DataError if the train or validation split is empty."""
    for split in ("train", "validation"):
        if sizes.get(split, 0) == 0:
            raise DataError(
                f"{source}: the {split} split is empty (rows: {sizes}). Training, early stopping and the "
                f"decision threshold need "
                "both: give a file for it, or one file of at least 10 rows, which is split 80/10/10."
            )


def fit_scaling(train: np.ndarray, kind: str) -> Scaling | None:
    """Normalisation by statistics of the train split.

    Args:
        train: (N, F).
        kind: one of `NORMALIZE`: `none`; `minmax`: to [0, 1]; `standard`: zero mean, unit variance; `auto`: `standard`,
            but columns of 0 and 1 stay, as a rare 1 would become huge. Constant columns become 0.
    """
    if kind == "none":
        return None
    low, high = train.min(0).astype(np.float64), train.max(0).astype(np.float64)
    varies = high > low
    if kind == "minmax":
        shift, spread = low, high - low
    else:
        shift, spread = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    if kind == "auto":
        binary = varies & ((train == 0) | (train == 1)).all(0)
        shift, spread = np.where(binary, 0, shift), np.where(binary, 1, spread)
    return Scaling(shift, varies / np.where(varies, spread, 1))


def feature_data(
    name: str,
    splits: dict[str, tuple[np.ndarray, np.ndarray]],
    origins: dict[str, Origins],
    feature_names: Sequence[str],
    label_names: Sequence[str],
    normalize: str,
    source: str,
    notes: list[str],
    max_train_rows: int | None = None,
    weights: np.ndarray | None = None,
    soft: np.ndarray | None = None,
) -> MultiLabelData:
    """Checked feature data with its normalisation. `splits` holds features (N, F) and labels (N, L); the other
    arguments are those of [`label_data`] and [`fit_scaling`]."""
    if not feature_names:
        raise DataError(f"{source}: no attribute is a feature, which is a number. Texts are read from a csv.")
    for split, (x, _) in splits.items():
        check_finite(x, feature_names, f"{source}, {split} split")
    inputs, labels = {split: x for split, (x, _) in splits.items()}, {split: y for split, (_, y) in splits.items()}
    data = label_data(name, source, inputs, labels, origins, label_names, notes, max_train_rows, weights, soft)
    data.feature_names = list(feature_names)
    data.scaling = fit_scaling(inputs["train"][:max_train_rows], normalize)
    return data


def label_data(
    name: str,
    source: str,
    inputs: Mapping[str, Any],
    labels: Mapping[str, np.ndarray],
    origins: Mapping[str, Origins],
    label_names: Sequence[str],
    notes: Sequence[str],
    max_train_rows: int | None = None,
    weights: np.ndarray | None = None,
    soft: np.ndarray | None = None,
) -> MultiLabelData:
    """The data set that all loaders return, from the rows that they read.

    Args:
        name, label_names, notes: as in [`MultiLabelData`].
        source: source of the data, for messages.
        inputs: features (N, F), N texts or a column of N images, by split.
        labels: (N, L), by split.
        origins: the places of the N rows, by split.
        max_train_rows: number of first training rows to keep; None keeps all.
        weights: weights of the kept training rows, or None.
        soft: probabilities of the labels of all training rows, or None.

    Raises:
        DataError: the train or validation split is empty, or labels are 1 or unknown alone.
    """
    check_splits({split: len(y) for split, y in labels.items()}, source)
    if not any((y >= 0).any() for y in labels.values()):
        raise DataError(
            f"{source}: no label is known in any row. `seal-hf predict` reads such data; training needs labels."
        )
    if not any((y == 0).any() for y in labels.values()) and any((~(y >= 0)).any() for y in labels.values()):
        raise DataError(f"{source}: labels are 1 or unknown, but never 0, so there is nothing to learn. {WRITE_ZERO}")
    kept = {split: slice(max_train_rows if split == "train" else None) for split in labels if len(labels[split])}
    labels = {split: labels[split][rows] for split, rows in kept.items()}
    inputs = {split: _first_rows(inputs[split], len(y)) for split, y in labels.items()}
    soft = None if soft is None else soft[:max_train_rows]
    tables = {
        split: make_dataset(inputs[split], y, *((weights, soft) if split == "train" else ()))
        for split, y in labels.items()
    }
    return MultiLabelData(
        name,
        {np.ndarray: "features", datasets.Dataset: "images"}.get(type(inputs["train"]), "text"),
        tables["train"],
        tables["validation"],
        tables.get("test"),
        list(label_names),
        notes=[
            *notes,
            *label_notes(labels, label_names),
            *repeat_notes({split: keys_of(rows) for split, rows in inputs.items()}, labels),
        ],
        origins={split: origins[split].take(rows) for split, rows in kept.items()},
    )


def _first_rows(inputs: Any, count: int) -> Any:
    return inputs.select(range(count)) if isinstance(inputs, datasets.Dataset) else inputs[:count]


def label_notes(labels: Mapping[str, np.ndarray], names: Sequence[str]) -> list[str]:
    """Counts of rows without labels, of unknown labels, of labels that are never 0, of labels that occur in no
    training row or in no row at all, and of labels of every row. All are kept."""
    empty = sum(int((y == 0).all(1).sum()) for y in labels.values())
    total = sum(len(y) for y in labels.values())
    notes = [f"{empty} of {total} rows have no label (kept)."] if empty else []
    present = {split: (y > 0).any(0) for split, y in labels.items()}
    somewhere = np.any([*present.values()], axis=0)
    bare = [split for split, has in present.items() if len(labels[split]) and not has.any()]
    if bare and len(bare) < len(labels):
        notes.append(f"no row of {' and '.join(bare)} has a label: figures on it mean nothing.")
    unknown = [int(np.count_nonzero(~(y >= 0))) for y in labels.values()]
    if any(unknown):
        total *= len(names)
        notes.append(f"{sum(unknown)} of {total} labels of rows are unknown (-1): they count in no loss or figure.")
        every = np.concatenate([*labels.values()])
        never_0 = somewhere & (~(every >= 0)).any(0) & ~(every == 0).any(0)
        never = [names[i] for i in np.flatnonzero(never_0).tolist()]
        if never:
            notes.append(
                f"{len(never)} of {len(names)} labels are 1 or unknown, but never 0: {few(never, 5)}. {WRITE_ZERO}"
            )
    held_out = np.any([has for split, has in present.items() if split != "train"], axis=0)
    unseen = [names[i] for i in np.flatnonzero(held_out & ~present["train"]).tolist()]
    if unseen:
        notes.append(f"{len(unseen)} of {len(names)} labels occur outside train only (kept): {few(unseen, 5)}.")
    nowhere = [names[i] for i in np.flatnonzero(~somewhere).tolist()]
    if nowhere:
        said = f"{len(nowhere)} of {len(names)} labels have no row"
        notes.append(f"{said} (kept, with an F1 of 0 in macro averages): {few(nowhere, 5)}.")
    in_all = np.all([(y > 0).all(0) for y in labels.values()], axis=0)
    everywhere = [names[i] for i in np.flatnonzero(in_all).tolist()]
    if everywhere:
        said = f"{len(everywhere)} of {len(names)} labels are in every row"
        notes.append(f"{said} (kept, with nothing to learn, but an F1 of 1 in macro averages): {few(everywhere, 5)}.")
    return notes
