"""Names of classes in files beside the data: a name per line, or JSON of names by id, ids by name, or a list."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from .common import DataError
from .line_files import not_utf8

LINES = ("classes.txt", "class_names.txt", "label_names.txt", "labelmap.txt")
MAPS = ("id2label.json", "label2id.json", "labels.json", "label.json", "classes.json", "class_names.json")
COLOUR_FILES = ("class_dict.csv", "label_class_dict.csv", "labelmap.txt")
COLOURED = re.compile(r"(.+?)\s*[:,]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\b(?::.*)?")  # a name and its colour
NUMBERED = (  # a line, and the groups of its number and name
    (re.compile(r"(\d+)[\s,;:]+(.+)"), 1, 2),
    (re.compile(r"(.*\S)[\s,;:]+(\d+)"), 2, 1),
)
Colour = tuple[int, int, int]
LABEL_LIST = "labels.txt"  # of label sets; a tsv beside it has no header


def is_name_file(file: Path) -> bool:
    """True for a file whose name is that of a list of names."""
    return file.name.lower() in (*LINES, *MAPS, LABEL_LIST, "dataset_info.json", "dataset_infos.json")


def names_beside(path: Path, also: tuple[str, ...] = ()) -> tuple[list[str], str] | None:
    """The names of classes in a folder, or beside a file, and the name of their file; None without one.

    Args:
        also: further names of files with a name per line.

    Raises:
        DataError: the file cannot be read; of a `.json` that maps nothing to ids, only `id2label.json` is an error.
    """
    folder = path if path.is_dir() else path.parent
    for name in (*also, *LINES, *MAPS):
        file = folder / name
        if file.is_file() and file != path and (found := _read(file)) is not None:
            return found, name
    return None


def names_of_file(file: Path) -> list[str]:
    """The names in a file, in the order of their ids.

    Raises:
        DataError: a file of another form, or a name twice.
    """
    if not file.is_file():
        raise DataError(f"{file}: no such file of names.")
    found = _read(file)
    if found is None:
        raise _other_form(file, "")
    return found


def _read(file: Path) -> list[str] | None:
    """None for JSON of another form in a file whose name may mean something else."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(file, error) from error
    if file.suffix.lower() != ".json":
        return _each_once(file, _of_lines(text.strip().split("\n")))
    try:
        names = _of_json(json.loads(text))
        reason = ""
    except ValueError as error:
        names, reason = None, f" ({error})"
    if names is None:
        if file.name.lower() in MAPS[:2]:
            raise _other_form(file, reason)
        return None
    return _each_once(file, names)


def _of_lines(lines: list[str]) -> list[str]:
    """The names in lines, without numbers that count them from 0, as in `0 cat` or `cat,0`, and without colours."""
    if coloured := _coloured(lines):
        return [name for name, _ in coloured]
    for pattern, number, name in NUMBERED:
        found = [pattern.fullmatch(line.strip()) for line in lines]
        pairs = {match[name]: match[number] for match in found if match}
        if [*pairs.values()] == [str(i) for i in range(len(lines))]:
            return [*pairs]
    return [line.strip() for line in lines]


def _coloured(lines: list[str]) -> list[tuple[str, Colour]]:
    """The names and colours in lines, perhaps below a header, as CVAT and CamVid write them; empty for other lines."""
    found = [COLOURED.fullmatch(line.strip()) for line in lines if line.strip()]
    found = found if found and found[0] else found[1:]
    return [(each[1], (int(each[2]), int(each[3]), int(each[4]))) for each in found if each] if all(found) else []


def colours_beside(folder: Path) -> tuple[Path, dict[str, Colour]] | None:
    """The file with the colours of classes in a folder, and class -> colour; None without one.

    Raises:
        DataError: a class or a colour stands in it twice.
    """
    file = next((folder / name for name in COLOUR_FILES if (folder / name).is_file()), None)
    found = _coloured(file.read_text(encoding="utf-8-sig").split("\n")) if file else []
    if file is None or not found:
        return None
    twice = next((colour for colour, count in Counter(colour for _, colour in found).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{file}: two classes have the colour {twice}. Give each class its own.")
    _each_once(file, [name for name, _ in found])
    return file, dict(found)


def _of_json(value: Any) -> list[str] | None:
    """The names in the order of their ids; None for something else."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("id2label", "label2id") if isinstance(value.get(key), dict)), value)
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value.values()):
        by_id = value
    elif isinstance(value, dict) and value and all(type(number) is int for number in value.values()):
        by_id = {str(number): name for name, number in value.items()}
    elif isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return [name.strip() for name in value]
    else:
        return None
    ids = [str(i) for i in range(len(value))]
    return [by_id[i].strip() for i in ids] if by_id.keys() == set(ids) else None


def _other_form(file: Path, reason: str) -> DataError:
    return DataError(
        f"{file}: not a list of names{reason}. Give a name per line, or in .json names by id from 0 on, such as "
        '{"0": "cat", "1": "dog"}, ids by name, or a list.'
    )


def _each_once(file: Path, names: list[str]) -> list[str]:
    counts = Counter(names)
    wrong = [name for name in names if not name or counts[name] > 1]
    if wrong:  # ids are line numbers: a skipped line would shift all later names
        raise DataError(f"{file}: expected one label per line, each once; found {wrong[0]!r} among {len(names)} lines.")
    return names
