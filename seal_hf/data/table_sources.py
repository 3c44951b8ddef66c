"""Tables as users have them: `datasets` and pandas in memory, folders of `save_to_disk`, parquet files, and the Hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from datasets import Dataset
from pyarrow import parquet

from ..utils.files import visible
from ..utils.messages import few
from .column_values import LOOKED_AT
from .common import DataError, Origins, id_column

SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "testa"),  # testa and testb: CoNLL-2003
    "test": ("test", "testb"),
}
EXPECTED = (
    "a name, a path, a Hub id, a datasets.Dataset or DatasetDict, a pandas DataFrame, or a mapping of splits to these"
)
SAVED = ("dataset_dict.json", "state.json")  # files that `save_to_disk` writes for several splits and for one
TABLE_FILES = (".parquet", ".arff", ".csv", ".tsv", ".jsonl", ".conll")
SHARD = re.compile(r"-(\d+)-of-(\d+)$")  # end of the name of a file with a part of a split


@dataclass
class Tables:
    """Tables by split.

    Attributes:
        name: short name, for logs and the model card.
        source: the source in words, for messages.
        splits: tables by `train`, `validation` and `test`; or one table `all`, which is not split.
        origins: the places of the rows, by split.
        notes: what was left out.
        folder: the place of files that the tables name.
    """

    name: str
    source: str
    splits: dict[str, Dataset]
    origins: dict[str, Origins] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folder: Path = Path()


def class_names(table: Dataset, column: str) -> list[str] | None:
    """Names of the ids in a column, if its feature is a ClassLabel or a list of them; None otherwise."""
    feature = table.features.get(column)
    return getattr(getattr(feature, "feature", feature), "names", None)


def split_of(name: str) -> str | None:
    """`emotions_val` -> `validation`; None if no word of the name is a name of a split."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    return next((split for split, known in SPLIT_WORDS.items() if words & set(known)), None)


def loaded(data: Any, load: Callable[[Any], Any]) -> Any:
    """`data` itself if it is a loaded data set, otherwise `load(data)`."""
    return data if hasattr(data, "label_names") else load(data)


def in_memory(data: Any) -> Tables:
    """A `Dataset`, a pandas frame, or a mapping of splits to these.

    Raises:
        DataError: `data` is of another type, or its names are not names of splits.
    """
    source = f"{type(data).__name__} in memory"
    tables = data if isinstance(data, Mapping) else {"": data}
    found = {str(split): _as_dataset(table, source) for split, table in tables.items()}
    name = next((table.info.dataset_name for table in found.values() if table.info.dataset_name), "data")
    return _by_split(found, name, source)


def is_stored(path: Path) -> bool:
    """True if a path is a parquet file, a folder of them, or a folder that `save_to_disk` wrote."""
    return path.suffix.lower() == ".parquet" if path.is_file() else _is_saved(path) or bool(_parquet_files(path))


def stored(path: Path) -> Tables:
    """The tables at a path that [`is_stored`]. The files of a folder name their split: `train.parquet`,
    `test-00000-of-00002.parquet`.

    Raises:
        DataError: a file is damaged, or the names are not names of splits.
    """
    found = _stored(path)
    found.folder = path.parent if path.is_file() else path
    return found


def _stored(path: Path) -> Tables:
    if path.is_file():
        return _by_split({"": _read(path)}, path.stem, str(path))
    if not _is_saved(path):
        return _parquet_folder(path)
    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # the library raises a dozen kinds; the user needs the folder and the reason
        raise DataError(f"{path}: not readable as a saved data set: {error}. Save it again.") from error
    return _by_split(saved if isinstance(saved, Mapping) else {"": saved}, path.name, str(path))


def first_rows(path: Path) -> Tables:
    """The first rows of the first table of a path that [`is_stored`].

    Raises:
        DataError: a file is damaged.
    """
    if _is_saved(path):
        found = _stored(path)
        split = next(iter(found.splits))
        table = found.splits[split]
        return Tables(path.stem, str(path), {split: table.select(range(min(len(table), LOOKED_AT)))}, found.origins)
    file = path if path.is_file() else _parquet_files(path)[0]
    try:
        with parquet.ParquetFile(file) as opened:
            batch = next(opened.iter_batches(LOOKED_AT), None)
            table = opened.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
            return Tables(path.stem, str(path), {"all": Dataset(table)})
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def from_hub(name: str) -> Tables:
    """Load the Hub data set `owner/name` or `owner/name:configuration` with `datasets.load_dataset`. No code of it
    runs.

    Raises:
        DataError: the data set cannot be loaded, or its names are not names of splits.
    """
    repo, _, configuration = name.partition(":")
    try:
        loaded = datasets.load_dataset(repo, configuration or None)
    except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
        raise DataError(
            f"Hub data set {name!r} could not be loaded, and there is no such file or folder here: {error}"
        ) from error
    return _by_split(loaded, repo.split("/")[-1], name, kind="Hub data set ")


def _by_split(
    found: Mapping[str, Any], name: str, source: str, files: Mapping[str, Path] | None = None, kind: str = ""
) -> Tables:
    """Tables by our names of splits. A table named "" becomes `all`, and so does a train split without others.

    Args:
        files: name in `found` -> its file, if the split is one file.
        kind: kind of the source, for the message.
    """
    words = {"all": ""} if "" in found else {}
    for split, known in SPLIT_WORDS.items():
        word = next((word for word in known if word in found), None)
        words |= {} if word is None else {split: word}
    if not words.keys() & {"all", "train"}:
        what = f"{kind}{source!r}" if kind else source
        raise DataError(f"{what} has the splits {', '.join(found)}, expected train, validation, test.")
    if set(words) == {"train"}:
        words = {"all": words["train"]}
    splits = {split: found[word].with_format(None) for split, word in words.items()}
    origins = {}
    for split, word in words.items():
        ids = id_column(splits[split]["id"][:]) if "id" in splits[split].column_names else None
        place = str((files or {}).get(word) or (f"{source}, {word} split" if word else source))
        origins[split] = Origins(place, rows=np.arange(len(splits[split])), ids=ids)
    left = [split for split in found if split not in words.values()]
    return Tables(name, source, splits, origins, [f"splits that are not read: {', '.join(left)}."] if left else [])


# --- one table ------------------------------------------------------------------------------------------------------


def _as_dataset(table: Any, source: str) -> Dataset:
    pandas = sys.modules.get("pandas")  # a frame exists only if pandas is imported
    if isinstance(table, Dataset):
        return table
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return _of_frame(table, source)
    hint = " Load it without streaming." if isinstance(table, datasets.IterableDataset) else ""
    raise DataError(f"the data is a {type(table).__name__}; expected {EXPECTED}.{hint}")


def _of_frame(frame: Any, source: str) -> Dataset:
    """A pandas frame as a table, without its index. Sets become lists, and images are encoded losslessly."""
    frame = frame.rename(columns=str)
    try:
        return Dataset(pa.Table.from_pandas(frame, preserve_index=False))
    except (pa.ArrowException, ValueError, TypeError) as error:
        if not frame.columns.is_unique:
            raise DataError(f"{source}: two columns have the same name: {', '.join(frame.columns)}.") from error
    try:
        return Dataset.from_dict({name: [_plain(v) for v in frame[name].tolist()] for name in frame.columns})
    except Exception as error:
        where = next((place for name in frame.columns if (place := _odd_value(frame[name].tolist(), name))), "a column")
        raise DataError(f"{source}: {where} holds values of several kinds: {error}. Give it one kind.") from error


def _odd_value(values: list[Any], name: str) -> str | None:
    """The place of the first value that differs in kind from the first one; None if all have one kind."""
    for row, value in enumerate(values):
        try:
            pa.array([_plain(values[0]), _plain(value)])
        except (pa.ArrowException, ValueError, TypeError):
            return f"column {name!r}, row {row} (counting from 0),"
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return None if isinstance(value, float) and value != value else value


# --- files ----------------------------------------------------------------------------------------------------------


def _is_saved(path: Path) -> bool:
    return any((path / name).is_file() for name in SAVED)


def _parquet_files(folder: Path) -> list[Path]:
    """The parquet files in a folder, or in its folder `data`, as in a clone of a Hub data set."""
    places = (each for each in (folder, folder / "data") if each.is_dir())
    found = ([each for each in visible(place) if each.suffix.lower() == ".parquet"] for place in places)
    return next((files for files in found if files), [])


def check_one_kind(folder: Path, own: str) -> None:
    """Raises DataError if a folder holds tables in files of another kind than `own`, which would not be read."""
    others = [
        file.name for file in visible(folder) if file.suffix.lower() in TABLE_FILES and file.suffix.lower() != own
    ]
    if others:
        raise DataError(
            f"{folder} holds {own} files and others: {few(others, 5)}. Keep one kind of files, or name the one to read."
        )


def _parquet_folder(folder: Path) -> Tables:
    files = _parquet_files(folder)
    check_one_kind(folder, ".parquet")
    shards: dict[str, list[Path]] = {}
    for file in files:
        shards.setdefault(SHARD.sub("", file.stem), []).append(file)
    for some in shards.values():
        _check_whole(folder, some)
    named: dict[str, str] = {}  # split -> name of its file
    for name in shards:
        split = split_of(name)
        if split in named:
            raise DataError(f"{folder}: two files for the {split} split: {named[split]}, {name}. Keep one.")
        if split is not None:
            named[split] = name
    if not named and len(shards) == 1:
        named = {"": next(iter(shards))}
    if not named:
        raise DataError(
            f"{folder}: no file names its split, as train.parquet does; found "
            f"{', '.join(file.name for file in files)}. Rename them, or give one file."
        )
    found = {split: _joined([_read(file) for file in shards[name]], folder) for split, name in named.items()}
    tables = _by_split(
        found,
        folder.name,
        str(folder),
        {split: shards[name][0] for split, name in named.items() if len(shards[name]) == 1},
    )
    left = [file.name for name, some in shards.items() for file in some if name not in named.values()]
    tables.notes += [f"{name} is not read: its name does not tell a split." for name in left]
    return tables


def _check_whole(folder: Path, files: Sequence[Path]) -> None:
    """Raises DataError if some files of a split in several parts are missing."""
    parts = [(int(found[1]), int(found[2])) for file in files if (found := SHARD.search(file.stem))]
    numbers, total = {number for number, _ in parts}, max((total for _, total in parts), default=0)
    missing = [number for number in range(total) if number not in numbers]
    if missing:
        name = SHARD.sub("", files[0].stem)
        raise DataError(
            f"{folder}: {name} has {len(numbers)} of its {total} parts. Add those with the numbers "
            f"{few([f'{number:05d}' for number in missing])}."
        )


def _joined(parts: list[Dataset], folder: Path) -> Dataset:
    try:
        return datasets.concatenate_datasets(parts)
    except ValueError as error:
        raise DataError(f"{folder}: the files of one split differ in their columns: {error}.") from error


def _read(file: Path) -> Dataset:
    try:
        with parquet.ParquetFile(file) as opened:
            table = opened.read()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    for field_of in table.schema:
        try:
            datasets.Features.from_arrow_schema(pa.schema([field_of]))
        except ValueError as error:
            raise DataError(f"{file}: the column {field_of.name!r} is not readable: {error}. Remove it.") from error
    if len(set(table.column_names)) < len(table.column_names):
        raise DataError(f"{file}: two columns have the same name: {', '.join(table.column_names)}. Rename one.")
    return Dataset(table)


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file}: not readable as parquet: {error}. The file may end early.")
