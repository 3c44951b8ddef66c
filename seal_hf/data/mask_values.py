"""What the values of a stored mask mean: pixels that do not count, and classes and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HFValidationError

from ..core.masks import IGNORE, MOST_CLASSES
from ..utils.messages import few
from .common import DataError
from .name_files import LABEL_LIST, names_beside, names_of_file

TEXT, MAP = "classes.txt", "id2label.json"  # files of names, in a data set's folder or repo
BINARY = ("background", "foreground")
FEW_VALUES = 12  # values of masks that are listed: a blurred mask has more
MOST_UNNAMED = 64  # classes that masks may have without names: a blurred mask has more values


@dataclass(frozen=True)
class MaskValues:
    """How stored values become class ids, 0 to C - 1, and 255 for a pixel that does not count.

    Attributes:
        ignore_index: a value that does not count, beside 255. If it is None, masks of 0 and 255 alone may mean an
            object by 255.
        reduce_labels: 0 does not count, and every other value v is the class v - 1, as `do_reduce_labels` of image
            processors.
        foreground: of two classes, 1 if 255 did not count in the training masks, 255 if it was the object, and another
            value if they held 0 and this one alone; None if they held 0 and 1 alone.
    """

    ignore_index: int | None = None
    reduce_labels: bool = False
    foreground: int | None = None

    @classmethod
    def of_inputs(cls, inputs: Mapping[str, Any]) -> MaskValues:
        """From a saved `config.inputs`.

        Raises:
            ValueError: a value is of the wrong kind; configs may come from anyone.
        """
        ignored, reduced = inputs.get("ignore_index"), inputs.get("reduce_labels", False)
        foreground = inputs.get("foreground")
        if not isinstance(ignored, int | None) or not isinstance(reduced, bool) or not _is_foreground(foreground):
            raise ValueError(
                f"`config.inputs` has ignore_index {ignored!r}, reduce_labels {reduced!r} and foreground "
                f"{foreground!r}; expected a whole number, true or false, and a whole number from 1 on."
            )
        return cls(ignored, reduced, foreground)

    @property
    def marks_objects(self) -> bool:
        """True if masks of 0 and 255 alone may mean an object by 255."""
        return self.ignore_index is None and not self.reduce_labels

    @property
    def inputs(self) -> dict[str, Any]:
        """For `config.inputs`: the values that are not the defaults."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}

    def read(self, mask: np.ndarray, where: str) -> np.ndarray:
        """(H, W), or with equal channels, of whole numbers -> (H, W) uint8.

        Raises:
            DataError: another shape or value; names the place `where`.
        """
        if mask.dtype.kind not in "biuf":
            raise DataError(f"{where}: the mask holds values of type {mask.dtype}; expected class ids, whole numbers.")
        if mask.ndim == 3 and mask.shape[2] in (2, 4) and (mask[..., -1] == mask.flat[-1]).all():
            mask = mask[..., :-1]  # an alpha channel that says nothing
        elif mask.ndim == 3 and mask.shape[2] in (2, 4) and (mask[..., :-1] == mask[0, 0, :-1]).all():
            mask = mask[..., -1]  # of one colour: the alpha channel says all
        if mask.ndim == 3 and (mask == mask[..., :1]).all():
            mask = mask[..., 0]
        if mask.ndim != 2:
            what, then = "", "Name another column by `mask_column` (--mask_column), if it is that of a table."
            if mask.ndim == 3:
                what = " with different channels"
                then = (
                    "In a folder of masks give the colours of the classes in class_dict.csv, a line `name,r,g,b` for "
                    "each. Else turn colours into ids, in an index or palette PNG."
                )
            raise DataError(
                f"{where}: the mask has shape {mask.shape}{what}; expected one channel (H, W) of class ids. {then}"
            )
        if self.foreground not in (None, 1, IGNORE):
            mask = np.where(mask == self.foreground, 1, mask)
        counts = ~np.isin(mask, (IGNORE,) if self.ignore_index is None else (IGNORE, self.ignore_index))
        known = mask[counts]
        wrong = known[(known < 0) | (known > IGNORE) | (known != np.floor(known))]
        if wrong.size:
            raise DataError(
                f"{where}: {wrong.size} of {mask.size} values of the mask, such as {wrong.flat[0]}, are not class ids: "
                f"whole numbers from 0 to {MOST_CLASSES - 1}, or {IGNORE} (does not count). Name another value that "
                "does not count by `ignore_index` (--ignore_index)."
            )
        if self.reduce_labels:
            counts &= mask != 0
        ids = np.where(counts, mask, 0).astype(np.uint8) - np.uint8(self.reduce_labels)
        return np.where(counts, ids, np.uint8(IGNORE))


def _is_foreground(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 1)


def large_object(mask: np.ndarray) -> int | None:
    """The value above 255 that a mask of 0 and one such value holds; None for other masks."""
    if mask.dtype.kind not in "iu" or not mask.size or mask.max() <= IGNORE:
        return None
    others = np.unique(mask[mask != 0])
    return int(others[0]) if len(others) == 1 else None


class Seen:
    """The values of all masks of a data set, after [`MaskValues.read`].

    Attributes:
        pixels: (256,), how many pixels have each value.
        ends: the last classes of masks that hold all ids from 0 to it; -1 if a mask leaves one out.
    """

    def __init__(self) -> None:
        self.pixels = np.zeros(256, dtype=np.int64)
        self.ends: set[int] = set()
        self.first: dict[int, str] = {}  # value -> where it was seen first

    def add(self, mask: np.ndarray, where: str) -> None:
        counts = np.bincount(mask.ravel(), minlength=256)
        self.pixels += counts
        held = np.flatnonzero(counts[:IGNORE])
        if len(held):
            self.ends.add(len(held) - 1 if held[-1] == len(held) - 1 else -1)
        for value in np.flatnonzero(counts).tolist():
            self.first.setdefault(value, where)

    @property
    def largest(self) -> int:
        """The largest class id; -1 without a pixel that counts."""
        return int(np.flatnonzero(self.pixels[:IGNORE]).max(initial=-1))

    @property
    def may_number_objects(self) -> bool:
        """True if each mask holds 0, 1, 2, ... to an end of its own, as masks of instances do."""
        return len(self.ends) > 2 and -1 not in self.ends

    def check(self, names: Sequence[str]) -> None:
        """Raises DataError for a value beyond these classes; names its place."""
        if self.largest >= len(names):
            one_more = self.largest == len(names)
            way = " If 0 is no class, as in ADE20K, give `reduce_labels` (--reduce_labels true)." if one_more else ""
            raise DataError(
                f"{self.first[self.largest]}: the mask holds the class {self.largest}, but there are {len(names)} "
                f"classes, 0 to {len(names) - 1}: {few(names, 5)}. Name all of them ({TEXT}, or `class_names`, "
                "--class_names), or give the value of pixels that do not count by `ignore_index` (--ignore_index)."
                f"{way}"
            )

    def numbered(self) -> list[str]:
        """The names of classes that have none: background and foreground, or numbers.

        Raises:
            DataError: a class between others occurs nowhere, or there are too many: the values may be no classes.
        """
        if self.largest <= 1:
            return list(BINARY)
        missing = np.flatnonzero(self.pixels[: self.largest] == 0).tolist()
        if missing or self.largest >= MOST_UNNAMED:
            found = f"but no mask holds {missing[0]}" if missing else f"and there are {self.largest + 1} values in all"
            if missing == [*range(1, self.largest)] and self.pixels[0]:
                raise DataError(
                    f"{self.first[self.largest]}: the masks hold 0, {self.largest} and 255. Write the object as 1, the "
                    "background as 0 and pixels that do not count as 255; or three classes as 0, 1 and 2."
                )
            way = " If ids begin at 1, give `reduce_labels` (--reduce_labels true)." if missing == [0] else ""
            held = np.flatnonzero(self.pixels).tolist()
            if missing != [0] and len(held) < FEW_VALUES:
                way = f" If {', '.join(map(str, held))} are the classes, write them as 0 to {len(held) - 1}."
            raise DataError(
                f"{self.first[self.largest]}: the mask holds the value {self.largest}, {found}: these may be no class "
                f"ids.{way} Name all classes ({TEXT} beside the data, or `class_names`, --class_names). "
                "Threshold a mask that JPEG or resizing blurred, and save it as PNG. Give the value of pixels that do "
                "not count by `ignore_index` (--ignore_index)."
            )
        return [str(i) for i in range(self.largest + 1)]


def given_names(given: str | Sequence[str]) -> list[str]:
    """The names of classes that a user gave: a file, or names, also several in one text, separated by commas.

    Raises:
        DataError: a file that cannot be read, a name twice, or fewer than two.
    """
    words = [given] if isinstance(given, str) else list(given)
    if len(words) == 1 and Path(words[0]).suffix.lower() in (".txt", ".json"):
        file = Path(words[0])
        if not file.is_file():
            raise DataError(f"`class_names` is {words[0]!r}, but there is no such file.")
        return _checked(names_of_file(file), file)
    return _checked([name.strip() for word in words for name in word.split(",") if name.strip()], "`class_names`")


def find_names(path: Path) -> list[str] | None:
    """The names of classes in a file in a folder, or beside a file, see `name_files.py`; None without such a file."""
    found = names_beside(path, (LABEL_LIST,))
    return None if found is None else _checked(found[0], path)


def names_on_hub(repo: str) -> list[str] | None:
    """The names in `id2label.json` or `classes.txt` of a data set's repo on the Hub; None if neither file can be read
    from it."""
    for name in (MAP, TEXT):
        try:
            return _checked(names_of_file(Path(hf_hub_download(repo, name, repo_type="dataset"))), f"{repo}, {name}")
        except (OSError, HFValidationError):  # no such file or repo, or no network
            continue
    return None


def _checked(names: list[str], source: Any) -> list[str]:
    if not 2 <= len(names) <= MOST_CLASSES:
        raise DataError(f"{source}: {len(names)} names of classes; expected from 2 to {MOST_CLASSES}.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{source}: names the class {twice!r} twice. Give each class its own name.")
    return names
