"""Where tables are: `datasets` and pandas in memory, files and folders, folders of `save_to_disk`, and the Hub; and the
files of a folder by split."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..utils.files import visible
from ..utils.messages import few
from .common import DataError, unread_type
from .image_tables import image_column
from .late import datasets, pa
from .line_files import LINES, SUFFIXES, indices_of, is_sparse
from .name_files import is_name_file
from .row_tables import DataTable, LineTable, ParquetTable, T, Table

if TYPE_CHECKING:
    from datasets import Dataset

SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "devel", "development", "testa"),  # testa, testb: CoNLL-2003
    "test": ("test", "testb"),
}
EXPECTED = (
    "a name, a path, a Hub id, a datasets.Dataset or DatasetDict, a pandas DataFrame, or a mapping of splits to these"
)
ALL = "all"  # the name of the only split, if the data set does not name one
FILES = (*SUFFIXES, ".parquet")
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
        notes: what was left out.
        path: the file or folder; None for tables in memory and on the Hub.
    """

    name: str
    source: str
    splits: dict[str, Table]
    notes: list[str] = field(default_factory=list)
    path: Path | None = None


def split_of(name: str) -> str | None:
    """`emotions_val` -> `validation`; None if no word of the name is a name of a split."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    return next((split for split, known in SPLIT_WORDS.items() if words & set(known)), None)


def by_split(
    things: Iterable[T], where: Path, name_of: Callable[[Any], str] = lambda file: file.stem, noun: str = "files"
) -> tuple[dict[str, T], list[T]]:
    """Split -> the file or folder whose name has a word of it; and those whose names have none.

    Raises:
        DataError: two of one split.
    """
    found: dict[str, T] = {}
    others: list[T] = []
    for thing in things:
        split = split_of(name := name_of(thing))
        if split in found:
            raise DataError(f"{where}: two {noun} for the {split} split: {name_of(found[split])}, {name}. Keep one.")
        if split is None:
            others.append(thing)
        else:
            found[split] = thing
    return found, others


def loaded(data: Any, load: Callable[[Any], Any]) -> Any:
    """`data` itself if it is a loaded data set, otherwise `load(data)`."""
    return data if hasattr(data, "label_names") else load(data)


def tables_of(data: Any, path: Path | None, label_column: str = "labels") -> Tables:
    """The tables of a data set by split.

    Args:
        data: a `Dataset`, a pandas frame, a mapping of splits to these, or a Hub id, `owner/name` or
            `owner/name:configuration`. Code of the data set is not run.
        path: of a file or folder in place of `data`. The parquet files of a folder name their splits:
            `train.parquet`, `test-00000-of-00002.parquet`.
        label_column: name for the second column of a tsv without header.

    Raises:
        DataError: `data` is of another type, a file is damaged, the Hub data set cannot be loaded, or the names are not
            names of splits.
    """
    if path is not None and not is_stored(path):
        tables = {split: LineTable(file, label_column) for split, file in files_of(path).items()}
        read = {table.source for table in tables.values()}
        others = visible(path) if path.is_dir() else ()
        others = [file for file in others if file.suffix.lower() in SUFFIXES and str(file) not in read]
        notes = [
            f"{file.name} is not read: its name is not that of a split." for file in others if not is_name_file(file)
        ]
        return Tables(path.stem, str(path), {**tables}, notes + _number_alike(tables), path)
    if path is not None:
        found = _by_split(*_stored(path), path.stem if path.is_file() else path.name, str(path))
        found.path = path
        return found
    if isinstance(data, str):
        return _by_split(from_hub(data), [], data.partition(":")[0].split("/")[-1], data, "Hub data set ")
    source = f"{type(data).__name__} in memory"
    splits = data if isinstance(data, Mapping) else {"": data}
    frames = {str(split): _as_dataset(table, source, str(split)) for split, table in splits.items()}
    name = next((table.info.dataset_name for table in frames.values() if table.info.dataset_name), "data")
    return _by_split(_of_datasets(frames, source), [], name, source)


def _number_alike(tables: Mapping[str, LineTable]) -> list[str]:
    """Number the features of LIBSVM files alike in all splits, in place; a note on those after the last of training."""
    files = [table.path for table in tables.values() if is_sparse(table.path)]
    if not files:
        return []
    indices, of_first = indices_of(files), indices_of(files[:1])
    for table in tables.values():
        table.indices = indices
    new = sum(indices) - sum(of_first)
    if new <= 0:
        return []
    return [
        f"{new} of {indices.size} features come after the last one of {files[0].name}, where they are 0 in all rows."
    ]


def _by_split(found: Mapping[str, Table], notes: list[str], name: str, source: str, kind: str = "") -> Tables:
    """Tables by our names of splits. A table named "" becomes `all`, and so does a train split without others.

    Args:
        kind: kind of the source, for the message.
    """
    words = {ALL: ""} if "" in found else {}
    for split, known in SPLIT_WORDS.items():
        word = next((word for word in known if word in found), None)
        words |= {} if word is None else {split: word}
    if not words.keys() & {ALL, "train"}:
        what = f"{kind}{source!r}" if kind else source
        raise DataError(f"{what} has the splits {', '.join(found)}, expected train, validation, test.")
    if set(words) == {"train"}:
        words = {ALL: words["train"]}
    left = [split for split in found if split not in words.values()]
    notes = [*([f"splits that are not read: {', '.join(left)}."] if left else []), *notes]
    return Tables(name, source, {split: found[word] for split, word in words.items()}, notes)


def open_table(name: str, split: str | None = None, label_column: str = "labels", usual: str = "test") -> Table:
    """A file, the file of a split in a folder, or a split on the Hub. Only the requested rows are fetched.

    Args:
        name: file, folder or Hub id.
        split: of a folder or Hub id; default: `usual`, or the only one.
        label_column: name for the second column of a tsv without header.

    Raises:
        DataError: the file, folder, data set or split does not exist, or the file's type is not supported.
    """
    path = Path(name)
    if not path.exists():
        if name.count("/") == 1 and not name.startswith((".", "/", "~")) and path.suffix.lower() not in FILES:
            tables = from_hub(name, streaming=True)
            word = chosen_split(list(tables), split, f"Hub data set {name!r}", usual)
            tables[word].note = f"{name}: the rows of its {word} split."
            return tables[word]
        raise DataError(f"{name}: no such file or folder, and not a Hub id (owner/name).")
    note = ""
    if path.is_dir():
        files = table_files(path, (*FILES, LINES))
        if not files and is_stored(path):
            tables = _by_split(*_stored(path), path.name, name).splits
            word = chosen_split(list(tables), split, name, usual)
            tables[word].note = "" if word == ALL else f"{name} is a folder: the rows of its {word} split."
            return tables[word]
        chosen = chosen_split(list(files), split, name, usual)
        path = files[chosen]
        which = "" if chosen == ALL else f", its {chosen} split"
        note = f"{name} is a folder: the rows of {path.name}{which}."
    elif split is not None:
        raise DataError(f"`split` is {split!r}, but {name} is one file. Leave it out: all rows are read.")
    if path.suffix.lower() not in (*FILES, LINES):
        raise unread_type(path, FILES)
    table = ParquetTable([path]) if path.suffix.lower() == ".parquet" else LineTable(path, label_column)
    table.note = note
    return table


def chosen_split(known: Sequence[str], asked: str | None, source: str, usual: str = "test") -> str:
    """The split `asked` for; default: the `usual` one, or the only one.

    Raises:
        DataError: the split does not exist.
    """
    wanted = asked or usual
    synonyms = (word for split, words in SPLIT_WORDS.items() if wanted in (split, *words) for word in (split, *words))
    found = next((word for word in (wanted, *synonyms) if word in known), None)
    if found is None and asked is None and len(known) == 1:
        found = known[0]
    if found is None:
        raise DataError(
            f"{source} has no {wanted} split; it has {', '.join(known)}. Name one by `split` (--split), or give a file."
            if known
            else f"{source} contains no file named after a split, such as {wanted}. Give a file."
        )
    return found


# --- in memory and on the Hub ----------------------------------------------------------------------------------------


def from_hub(name: str, streaming: bool = False) -> dict[str, Table]:
    """The splits of a Hub data set, by its own names.

    Raises:
        DataError: the data set cannot be loaded.
    """
    repo, _, configuration = name.partition(":")
    try:
        loaded = datasets.load_dataset(repo, configuration or None, **({"streaming": True} if streaming else {}))
    except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
        raise DataError(
            f"Hub data set {name!r} could not be loaded, and there is no such file or folder here: {error}"
        ) from error
    return _of_datasets(loaded, name)


def _of_datasets(splits: Mapping[str, Any], source: str, folder: Path = Path()) -> dict[str, Table]:
    return {
        word: DataTable(
            data.with_format(None) if isinstance(data, datasets.Dataset) else data,
            f"{source}, {word} split" if word else source,
            folder,
            word,
        )
        for word, data in splits.items()
    }


def _as_dataset(table: Any, source: str, split: str) -> Dataset:
    pandas = sys.modules.get("pandas")  # a frame exists only if pandas is imported
    if isinstance(table, datasets.Dataset):
        return table
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return _of_frame(table, source)
    hint = "Columns become a table by datasets.Dataset.from_dict(columns), rows by Dataset.from_list(rows)."
    hint = "Load it without streaming." if isinstance(table, datasets.IterableDataset) else hint
    what = f"{split!r} of the data" if split else "the data"
    raise DataError(f"{what} is a {type(table).__name__}; expected {EXPECTED}. {hint}")


def _of_frame(frame: Any, source: str) -> Dataset:
    """A pandas frame as a table, without its index. Sets become lists, and images are encoded losslessly."""
    frame = frame.rename(columns=str)
    try:
        return datasets.Dataset(pa.Table.from_pandas(frame, preserve_index=False))
    except (pa.ArrowException, ValueError, TypeError) as error:
        if not frame.columns.is_unique:
            raise DataError(f"{source}: two columns have the same name: {', '.join(frame.columns)}.") from error
    try:
        return datasets.Dataset.from_dict({name: [_plain(v) for v in frame[name].tolist()] for name in frame.columns})
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


# --- parquet and save_to_disk ----------------------------------------------------------------------------------------


def is_stored(path: Path) -> bool:
    """True if a path is a parquet file, a folder of them, or a folder that `save_to_disk` wrote."""
    return path.suffix.lower() == ".parquet" if path.is_file() else _is_saved(path) or bool(_parquet_files(path))


def _is_saved(path: Path) -> bool:
    return any((path / name).is_file() for name in SAVED)


def _parquet_files(folder: Path) -> list[Path]:
    """The parquet files in a folder, or in its folder `data`, as in a clone of a Hub data set."""
    places = (each for each in (folder, folder / "data") if each.is_dir())
    found = ([each for each in visible(place) if each.suffix.lower() == ".parquet"] for place in places)
    return next((files for files in found if files), [])


def _stored(path: Path) -> tuple[dict[str, Table], list[str]]:
    """The tables at a path that [`is_stored`], by their own names of splits; and notes."""
    if path.is_file():
        return {"": ParquetTable([path])}, []
    if not _is_saved(path):
        return _parquet_folder(path)
    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # the library raises a dozen kinds; the user needs the folder and the reason
        raise DataError(f"{path}: not readable as a saved data set: {error}. Save it again.") from error
    return _of_datasets(saved if isinstance(saved, Mapping) else {"": saved}, str(path), path), []


def check_one_kind(folder: Path, own: str) -> None:
    """Raises DataError if a folder holds tables in files of another kind than `own`, which would not be read."""
    others = [
        file.name for file in visible(folder) if file.suffix.lower() in TABLE_FILES and file.suffix.lower() != own
    ]
    if others:
        raise DataError(
            f"{folder} holds {own} files and others: {few(others, 5)}. Keep one kind of files, or name the one to read."
        )


def _parquet_folder(folder: Path) -> tuple[dict[str, Table], list[str]]:
    files = _parquet_files(folder)
    check_one_kind(folder, ".parquet")
    shards: dict[str, list[Path]] = {}
    for file in files:
        shards.setdefault(SHARD.sub("", file.stem), []).append(file)
    for some in shards.values():
        _check_whole(folder, some)
    named, _ = by_split(shards, folder, str)
    if not named and len(shards) == 1:
        named = {"": next(iter(shards))}
    if not named:
        raise DataError(
            f"{folder}: no file names its split, as train.parquet does; found "
            f"{', '.join(file.name for file in files)}. Rename them, or give one file."
        )
    tables: dict[str, Table] = {}
    for split, name in named.items():
        several = f"{folder}, {split} split" if split else str(folder)
        tables[split] = ParquetTable(shards[name], several if len(shards[name]) > 1 else None)
        tables[split].folder = folder
    left = [file.name for name, some in shards.items() for file in some if name not in named.values()]
    return tables, [f"{name} is not read: its name does not tell a split." for name in left]


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


# --- files of lines --------------------------------------------------------------------------------------------------


def files_of(path: Path) -> dict[str, Path]:
    """Split -> its file; the split of a single file is `all`.

    Raises:
        DataError: a folder lacks a file for the train split.
    """
    if not path.is_dir():
        return {ALL: path}
    files, entries, tables = table_files(path, (*SUFFIXES, LINES)), visible(path), _tables_in(path)
    if len(tables) == 1 and [*files.values()] in ([], tables) and not _is_split(tables[0]):
        return {ALL: tables[0]}
    if not files.keys() & {ALL, "train"}:
        found = ", ".join(file.name for file in entries) or "nothing"
        folders = bool(entries) and all(entry.is_dir() for entry in entries)
        hint = " Texts in folders of their class are not read: write a .csv with the columns text and labels."
        raise DataError(
            f"{path}: no file for the train split, expected {' or '.join(SPLIT_WORDS['train'])} in its name, with "
            f"{', '.join((*SUFFIXES, '.parquet'))}; found {found}. "
            f"A single file is split at random.{hint * folders}"
        )
    return files


def table_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> dict[str, Path]:
    """Split -> its table in a folder, or in a folder of the split with its images. The name of a table is a word for
    its split, or contains one if none is called `train`. The only table of a folder of images is `all`.

    Raises:
        DataError: two tables of one split.
    """
    files = {}
    for split, words in SPLIT_WORDS.items():
        below = next((each for each in _called(folder, words) if each.is_dir()), None)
        if file := _split_file(folder, split, words, suffixes) or (below and _only_table(below)):
            files[split] = file
    if "train" not in files and not is_stored(folder):
        tables = (file for file in visible(folder) if file.suffix.lower() in suffixes and not is_name_file(file))
        others = [file for file in tables if split_of(file.stem) not in files]
        files |= by_split(others, folder, lambda file: file.name)[0]
    only = None if files else _only_table(folder)
    return {split: files[split] for split in SPLIT_WORDS if split in files} if only is None else {ALL: only}


def _split_file(folder: Path, split: str, words: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    """The file of a split, whose name is one of `words`, in any case, or None."""
    names = [f"{word}{suffix}" for word in words for suffix in suffixes]
    matches = [file for file in _called(folder, names) if file.is_file()]
    if len(matches) > 1:
        raise DataError(
            f"{folder}: two files for the {split} split: {', '.join(file.name for file in matches)}. Keep one."
        )
    return matches[0] if matches else None


def _is_split(file: Path) -> bool:
    """True if the name of a file is a word for a split."""
    return any(file.stem.lower() in words for words in SPLIT_WORDS.values())


def _called(folder: Path, names: Sequence[str]) -> list[Path]:
    """What a folder holds under one of these names, upper case or lower, in their order."""
    found = [each for each in visible(folder) if each.name.lower() in names]
    return sorted(found, key=lambda each: names.index(each.name.lower()))


def _only_table(folder: Path) -> Path | None:
    """The only csv, tsv or jsonl of a folder, if it names image files."""
    tables = _tables_in(folder)
    return tables[0] if len(tables) == 1 and _names_image_files(tables[0]) else None


def _tables_in(folder: Path) -> list[Path]:
    """The files of rows in a folder, whatever their names; a list of class names is no file of rows."""
    return [file for file in visible(folder) if file.suffix.lower() in SUFFIXES and not is_name_file(file)]


def _names_image_files(file: Path) -> bool:
    """True if a column of a file has the names of image files."""
    try:
        return image_column({}, LineTable(file).head(), None, None) is not None
    except DataError:
        return False
