"""Files that list images, or images with their masks: a table with a column for each, or a line for each image."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from ..utils.files import visible
from .common import DataError
from .image_files import IMAGE_SUFFIXES
from .name_files import is_name_file
from .table_sources import ALL, SPLIT_WORDS, split_of

MASK = re.compile(
    r"(masks?|labels?|annots?|annotations?|segmentations?|truths?|trimaps?|^(gts?|segs?|anns?|annos?|manual|targets?))$"
)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
LOOKED_AT = 100  # rows
TABLES = {".csv": ",", ".tsv": "\t"}
Split = list[tuple[Path, Path]]  # (image, mask) each


def words_of(name: str) -> list[str]:
    """`leftImg8bit` -> left, img, 8, bit."""
    return [word.lower() for word in WORD.findall(name)]


def names_masks(name: str) -> bool:
    """True if a name has a word for masks."""
    return any(MASK.search(word) for word in words_of(name))


def without_masks(word: str) -> str:
    """`trainannot` -> `train`."""
    return MASK.sub("", word)


@dataclass
class MaskList:
    """A table or list.

    Attributes:
        file: the list.
        folder: of the data.
        rows: the number and cells of each line that is not blank; a header is among them.
    """

    file: Path
    folder: Path
    rows: list[tuple[int, list[str]]]

    @cached_property
    def _header(self) -> list[str]:
        return [] if not self.rows or any(map(_is_image, self.rows[0][1])) else self.rows[0][1]

    @cached_property
    def _example(self) -> list[str] | None:
        """The first row that names two image files; None without one."""
        return next((row for _, row in self.rows[:LOOKED_AT] if len(self._columns(row)) == 2), None)

    @cached_property
    def _pair(self) -> tuple[int, int] | None:
        """The columns of images and masks; None if no row has both. In a table, a title or name says which are masks;
        without titles, masks may come last."""
        if self._example is None:
            return None
        first, second = self._columns(self._example)
        for names in (self._header, self._example):
            if len(names) == len(self._example) and names_masks(names[first]) != names_masks(names[second]):
                return (second, first) if names_masks(names[first]) else (first, second)
        return None if self._header else (first, second)

    @property
    def has_pairs(self) -> bool:
        return self._pair is not None

    def _columns(self, row: Sequence[str]) -> list[int]:
        """Those that name image files, each another one."""
        found = {self._found(cell): i for i, cell in reversed([*enumerate(row)]) if _is_image(cell)}
        return sorted(i for file, i in found.items() if file)

    def _found(self, name: str) -> Path | None:
        """A file by its name: from the folder of the list or data on. Folders in front that are not here are left
        out."""
        parts = [part for part in name.strip().replace("\\", "/").split("/") if part not in ("", ".", "..")]
        places = (place.joinpath(*parts[i:]) for i in range(len(parts)) for place in (self.file.parent, self.folder))
        return next((place for place in places if place.is_file()), None)

    def pairs(self, notes: list[str]) -> Iterator[tuple[str, tuple[Path, Path]]]:
        """The split and the files of each row. Rows without a mask are counted in a note.

        Raises:
            DataError: a file does not exist; or a row names no split, but others do.
        """
        example, pair = self._example, self._pair
        assert example is not None and pair is not None
        split = next((i for i, title in enumerate(self._header) if title.lower() == "split"), None)
        without = 0
        for number, row in self.rows[bool(self._header) :]:
            where = f"{self.file}, line {number}"
            if len(row) != len(example):
                raise DataError(f"{where}: {len(row)} cells, but {len(example)} before. Correct the line.")
            if not row[pair[1]]:
                without += 1
                continue
            files = [self._found(row[column]) for column in pair]
            if None in files:
                name = row[pair[files.index(None)]]
                raise DataError(
                    f"{where}: no image file {name!r} in {self.file.parent}. Write names as they are from the folder "
                    "of the list on."
                )
            named = split_of(self.file.stem) or (None if split is None else split_of(row[split]))
            if split is not None and named is None:
                raise DataError(f"{where}: the split is {row[split]!r}; expected train, validation or test.")
            yield named or ALL, (files[0], files[1])  # type: ignore[misc]
        notes += [f"{self.file.name}: {without} images without a mask are not read."] if without else []


def lists_in(path: Path) -> list[MaskList]:
    """The lists in a folder: tables; and texts named after a split, also in VOC's `ImageSets/Segmentation`. Or the list
    that this file is."""
    if path.is_file():
        return [_read(path, path.parent)]
    tables = [file for file in visible(path) if file.suffix.lower() in TABLES and not is_name_file(file)]
    found = [_read(file, path) for file in tables if _read(file, path, LOOKED_AT).has_pairs]
    for words in SPLIT_WORDS.values():
        places = (place / f"{word}.txt" for place in (path / "ImageSets" / "Segmentation", path) for word in words)
        found += [_read(file, path) for file in [next((each for each in places if each.is_file()), None)] if file]
    return found


def _read(file: Path, folder: Path, rows: int | None = None) -> MaskList:
    return MaskList(file, folder, [*islice(_rows(file), rows)])


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and cells of each line that is not blank. Bytes that are not UTF-8 are in no name that is found."""
    separator = TABLES.get(file.suffix.lower())
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        first = lines.readline()
        lines.seek(0)
        rows: Iterable[list[str]] = (line.split() for line in lines)
        if separator is not None:
            rows = csv.reader(lines, delimiter=";" if ";" in first and separator not in first else separator)
        for number, row in enumerate(rows, start=1):
            if any(row):
                yield number, [cell.strip() for cell in row]


def listed_pairs(lists: Sequence[MaskList], path: Path, notes: list[str]) -> dict[str, Split] | None:
    """Split -> the pairs that lists name; None if no list names pairs.

    Raises:
        DataError: two lists name one split.
    """
    with_pairs = [each for each in lists if each.has_pairs]
    other = next((each for each in lists if not each.has_pairs), None)
    if with_pairs and other is not None:
        named = "no image" if not other.rows else f"no mask, but {with_pairs[0].file.name} does"
        raise DataError(f"{other.file}: names {named}. Correct the list, or remove it.")
    splits: dict[str, Split] = {}
    for each in with_pairs:
        found: dict[str, Split] = {}
        for split, pair in each.pairs(notes):
            found.setdefault(split, []).append(pair)
        images = Counter(image for some in found.values() for image, _ in some)
        if (often := images.most_common(1)) and often[0][1] > 1:
            raise DataError(
                f"{each.file}: names {often[0][1]} masks for {often[0][0]}. Join the masks of an image to one."
            )
        if twice := splits.keys() & found.keys() or (len(with_pairs) > 1 and {ALL} & found.keys()):
            files = ", ".join(other.file.name for other in with_pairs)
            what = "no split" if ALL in twice else f"the {min(twice)} split twice"
            raise DataError(f"{path}: the lists {files} name {what}. Keep one list for each of train, val and test.")
        splits |= found
    if splits:
        notes.append(f"images and masks are those that {' and '.join(each.file.name for each in with_pairs)} names.")
    return splits or None


def listed_names(lists: Sequence[MaskList], pairs: Mapping[Path, Path], notes: list[str]) -> dict[str, Split]:
    """Split -> the pairs of the images that its list names.

    Raises:
        DataError: a list is empty, or names an image that has no mask, does not exist or exists twice.
    """
    of_names: dict[str, list[Path]] = {}
    for image in pairs:
        of_names.setdefault(image.stem, []).append(image)
    splits: dict[str, Split] = {}
    for each in lists:
        if not each.rows:
            raise DataError(f"{each.file}: names no image. Correct the list, or remove it.")
        split = splits[split_of(each.file.stem) or ALL] = []
        for _, row in each.rows:
            name = next((name for name in (_name_of(" ".join(row)), _name_of(row[0])) if name in of_names), None)
            if name is None or len(of_names[name]) > 1:
                what = "no image with a mask is called so" if name is None else f"{len(of_names[name])} images are"
                raise DataError(f"{each.file}: names {row[0]!r}, but {what}. Correct the list, or remove it.")
            split.append((of_names[name][0], pairs[of_names[name][0]]))
    left = len(pairs) - len({image for some in splits.values() for image, _ in some})
    if left:
        said = "1 mask is" if left == 1 else f"{left} masks are"
        notes.append(f"{said} not read, since no list of a split names {'it' if left == 1 else 'them'}.")
    return splits


def _is_image(cell: str) -> bool:
    return Path(cell).suffix.lower() in IMAGE_SUFFIXES


def _name_of(file: str) -> str:
    """The name of an image without folders and suffix."""
    path = Path(file.replace("\\", "/"))
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES else path.name
