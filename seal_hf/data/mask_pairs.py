"""Which mask belongs to which image: the pairs in a folder, by split.

A table or list may name both files of each pair, see `mask_lists.py`. Else names say it: a folder holds masks if its
name has a word for them, such as `masks` or `gt`, and the names beside it have none. It belongs to the folder of images
whose path has most in common with its own, and the name of a mask begins with that of its image.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonpath, commonprefix
from pathlib import Path
from string import digits as DIGITS
from typing import NamedTuple

from ..utils.files import visible
from ..utils.messages import few
from .common import DataError
from .image_files import IMAGE_SUFFIXES, files_by_stem, is_image
from .mask_lists import Split, listed_names, listed_pairs, lists_in, names_masks, without_masks, words_of
from .table_sources import ALL, SPLIT_WORDS, split_of

NO_GOLD = {  # words for drawings of masks, for masks that number objects, and for those that a model gave
    *("instance", "instances", "object", "panoptic", "color", "colour", "visualization", "vis", "viz", "overlay"),
    *("pred", "preds", "predicted", "prediction", "predictions"),
}
IMAGE = re.compile(r"(?i)image|img")  # in the name of a folder
Files = Mapping[str, Path]  # name without suffix -> file


@dataclass
class Pairs:
    """Images with their masks.

    Attributes:
        splits: split, or `all` -> the pairs.
        notes: what is not read, and which mask an image has if their names differ.
    """

    splits: dict[str, Split]
    notes: list[str] = field(default_factory=list)


def find_pairs(path: Path) -> Pairs | None:
    """The pairs in a folder, or in a list; None if nothing is a mask.

    Raises:
        DataError: an image without a mask or with several, a mask without an image, or names of splits that do not fit.
    """
    notes: list[str] = []
    lists = lists_in(path)
    splits = listed_pairs(lists, path, notes)
    if splits is None:
        groups = _groups(path) if path.is_dir() else []
        found = [group for group in groups if group.masks]
        if not found:
            return None
        others = [f"{group.folder.relative_to(path)}/" for group in groups if not group.masks]
        notes += [f"not read, since masks are missing: {few(others, 5)}."] if others else []
        named = {group.folder: _split_folder(group, path) for group in found}
        if any(named.values()):
            _check_splits(named, path)
            splits = {split_of(name) or ALL: [] for name in named.values()}
            for group in found:
                splits[split_of(named[group.folder]) or ALL] += group.all_pairs()
        elif lists:
            splits = listed_names(lists, {file: mask for group in found for file, mask in group.pairs}, notes)
        else:
            splits = {ALL: [pair for group in found for pair in group.all_pairs()]}
        if len(found) > len(splits):
            shown = [f"{group.folder.relative_to(path)}/" for group in found]
            apart = " A random split may put images of one folder, such as a patient's, into several." * (ALL in splits)
            notes.append(f"images come from {len(found)} folders: {few(shown, 5)}.{apart}")
        left_out = dict.fromkeys(name for group in found for name in group.left_out)
        notes += [f"not read, since by their names they hold no gold: {few([*left_out], 5)}."] if left_out else []
    pairs = (pair for some in splits.values() for pair in some)
    example = next(((image, mask) for image, mask in pairs if image.stem not in mask.stem), None)
    notes += [f"the mask of {example[0].name} is {example[1].name}, and so on."] if example else []
    return Pairs(splits, notes)


# --- folders ----------------------------------------------------------------------------------------------------------


@dataclass
class _Group:
    """A folder of images, and the folders with their masks."""

    folder: Path
    images: Files
    masks: dict[Path, Files] = field(default_factory=dict)

    def divide(self) -> None:
        """Take the files whose names end in a word for masks as the masks of the others."""
        drawn = {stem: file for stem, file in self.images.items() if _ends_as_mask(stem)}
        if 0 < len(drawn) < len(self.images):
            self.masks = {self.folder: drawn}
            self.images = {stem: file for stem, file in self.images.items() if stem not in drawn}

    @cached_property
    def _kinds(self) -> dict[tuple[Path, str], dict[str, Path]]:
        """The folder of masks, and how their names end -> the name of an image -> its mask."""
        kinds: dict[tuple[Path, str], dict[str, Path]] = defaultdict(dict)
        for folder, files in self.masks.items():
            for mask, (image, ending) in matched(files, self.images).items():
                kinds[folder, ending][image] = files[mask]
        return kinds

    @cached_property
    def _without_gold(self) -> dict[tuple[Path, str], str]:
        """The kinds of masks that hold no gold by their names, if there are others -> their names."""
        above = commonpath(self.masks)
        named = {(folder, end): (folder.relative_to(above), end) for folder, end in self._kinds}
        found = {kind: name for kind, name in named.items() if NO_GOLD & {*words_of("{} {}".format(*name))}}
        if len(found) == len(named):
            return {}
        return {kind: f"*{end}" if end else f"{below}/" for kind, (below, end) in found.items()}

    @property
    def left_out(self) -> list[str]:
        return [*self._without_gold.values()]

    @cached_property
    def pairs(self) -> Split:
        """The images that have a mask, sorted by name, with it. Raises DataError for several kinds of masks."""
        kinds = [files for kind, files in self._kinds.items() if kind not in self._without_gold]
        if len(kinds) > 1:
            shown = [str(next(iter(files.values()))) for files in kinds]
            raise DataError(
                f"{self.folder}: found {len(kinds)} kinds of masks for these images: {few(shown, 4)}, and so on. Keep "
                "the kind that holds the classes, and move the others elsewhere. Join the masks of an image to one."
            )
        return [(file, kinds[0][stem]) for stem, file in self.images.items() if kinds and stem in kinds[0]]

    def all_pairs(self) -> Split:
        """Raises DataError for an image without a mask, or a mask without an image."""
        paired = {file for pair in self.pairs for file in pair}
        paired |= {file for kind in self._without_gold for file in self._kinds[kind].values()}
        alone = [(file, " or ".join(map(str, self.masks))) for file in self.images.values() if file not in paired]
        drawn = [file for files in self.masks.values() for file in files.values()]
        alone += [(file, str(self.folder)) for file in drawn if file not in paired]
        if alone:
            file, place = alone[0]
            others = f", nor for {len(alone) - 1} others" if len(alone) > 1 else ""
            raise DataError(
                f"{file}: no file of this name in {place}{others}. Give each image one mask, whose name is or begins "
                f"with that of the image ({', '.join(IMAGE_SUFFIXES)}), or remove it."
            )
        return self.pairs


def _groups(path: Path) -> list[_Group]:
    """The folders of images in a folder, at any depth, each with its masks."""
    below = [path, *(place for place in sorted(path.rglob("*")) if place.is_dir())]
    below = [place for place in below if not any(part.startswith(".") for part in place.relative_to(path).parts)]
    folders = {place: files_by_stem(place) for place in below if any(is_image(file) for file in visible(place))}
    drawn = _folders_of_masks([*folders], path)
    groups = {place: _Group(place, files) for place, files in folders.items() if place not in drawn}
    named = {place: _Place.of(place, path) for place in folders}
    for place in drawn:
        owners = _closest(named[place], {other: named[other] for other in groups})
        if len(owners) > 1:  # those that hold images of these masks, say so, and have no more words than needed
            fit = {
                other: (
                    bool(matched(folders[place], folders[other])),
                    bool(IMAGE.search(other.name)),
                    -len(named[other].words - named[place].words),
                )
                for other in owners
            }
            owners = [other for other in owners if fit[other] == max(fit.values())]
        if len(owners) != 1:
            what = f"may be those of {few([*map(str, owners)], 4)}" if owners else "have no folder of images"
            raise DataError(
                f"{place}: these masks {what}. Give the folder of their images a name with the same words, such as "
                "train/ beside train_masks/, or move the masks elsewhere."
            )
        groups[owners[0]].masks[place] = folders[place]
    for group in groups.values():
        if not group.masks:
            group.divide()
    return [*groups.values()]


class _Place(NamedTuple):
    """What the path of a folder says.

    Attributes:
        parts: the names of its folders.
        words: the words of these but those for masks. All names of a split are one word.
        splits: the splits among them.
    """

    parts: frozenset[str]
    words: frozenset[str]
    splits: frozenset[str]

    @classmethod
    def of(cls, folder: Path, path: Path) -> _Place:
        parts = folder.relative_to(path).parts
        plain = [without_masks(word) for part in parts for word in words_of(part)]
        words = frozenset(split_of(word) or word for word in plain if word)
        return cls(frozenset(parts), words, words & SPLIT_WORDS.keys())


def _closest(masks: _Place, images: Mapping[Path, _Place]) -> list[Path]:
    """The folders of images that have most parts, and then words, in common with a folder of masks, and no other
    split."""
    able = {
        folder: (len(place.parts & masks.parts), len(place.words & masks.words))
        for folder, place in images.items()
        if not place.splits or not masks.splits or place.splits & masks.splits
    }
    most = max(able.values(), default=(0, 0))
    return [folder for folder, common in able.items() if common == most]


def _folders_of_masks(folders: Sequence[Path], path: Path) -> list[Path]:
    """The folders with a word for masks in their name, or in one above, where a name beside that one has none. A folder
    alone in its own is one by its name, if others have no such word, as `predictions/masks/` beside `images/`."""
    beside: dict[tuple[str, ...], set[str]] = defaultdict(set)  # parts of a path -> what follows in the folders
    parts = {folder: folder.relative_to(path).parts for folder in folders}
    for each in parts.values():
        for i in range(len(each) + 1):
            beside[each[:i]].add("".join(each[i : i + 1]))
    is_mixed = {above: not all(map(names_masks, names)) for above, names in beside.items()}
    has_others = any(not any(map(names_masks, each)) for each in parts.values())
    return [
        folder
        for folder, each in parts.items()
        if any(names_masks(part) and is_mixed[each[:i]] for i, part in enumerate(each))
        or (has_others and any(map(names_masks, each[-1:])))
    ]


def _split_folder(group: _Group, path: Path) -> str:
    """The part of the path of images, or else of their masks, that names a split; empty if none does."""
    known = [word for words in SPLIT_WORDS.values() for word in words]
    for folder in (group.folder, *group.masks):
        parts = folder.relative_to(path).parts
        found = [part for part in parts if part.lower() in known] + [part for part in parts if split_of(part)]
        if found:
            return found[0]
    return ""


def _check_splits(named: Mapping[Path, str], path: Path) -> None:
    """Raises DataError for a folder without a split beside others, and for two names of one split."""
    for folder, name in named.items():
        if not name:
            raise DataError(
                f"{folder}: has images and masks, but its path names no split, as others do. Put it into a folder "
                "train, validation or test, or move it elsewhere."
            )
        same = sorted({other for other in named.values() if split_of(other) == split_of(name)})
        if len(same) > 1:
            raise DataError(f"{path}: two folders for the {split_of(name)} split: {', '.join(same)}. Keep one.")


# --- names of files ---------------------------------------------------------------------------------------------------


def matched(masks: Collection[str], images: Collection[str]) -> dict[str, tuple[str, str]]:
    """The name of a mask -> that of its image, and what follows it, such as `_mask`.

    The name of a mask begins with that of its image. The names of all images may have an end of their own, as
    `1_training` beside `1_manual1`; or all images, and all masks, begin alike too, as `image_1` and `mask_1`.
    """
    begin, end = _alike(images)
    plain = _beginning(masks, {stem: stem for stem in images})
    if len(plain) == len(masks):
        return plain
    shorter = _beginning(masks, {stem.removesuffix(end): stem for stem in images})
    found = max(plain, shorter, key=len)
    if found or len(masks) != len(images) or len(images) < 2:
        return found
    own_begin, own_end = _alike(masks)
    parts = {stem[len(begin) : len(stem) - len(end)]: stem for stem in images}
    own = {stem[len(own_begin) : len(stem) - len(own_end)]: stem for stem in masks}
    return {own[part]: (parts[part], "") for part in own} if own.keys() == parts.keys() else {}


def _beginning(masks: Collection[str], images: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Masks by the longest of these names with which their own begins. A word or number is not cut."""
    found = {}
    for mask in masks:
        known = (n for n in range(len(mask), 0, -1) if mask[:n] in images)
        end = next((n for n in known if not (mask[n - 1].isalnum() and mask[n : n + 1].isalnum())), None)
        if end is not None:
            found[mask] = images[mask[:end]], mask[end:]
    return found


def _alike(stems: Collection[str]) -> tuple[str, str]:
    """How all names begin and end. Digits are left out, since they may tell 10, 11 and 12 apart."""
    begin, end = commonprefix([*stems]), commonprefix([stem[::-1] for stem in stems])[::-1]
    return begin.rstrip(DIGITS), end.lstrip(DIGITS)


def _ends_as_mask(stem: str) -> bool:
    """True for `a_mask`, `1_mask_2` and `mask_1`."""
    words = (part.strip(DIGITS) for part in re.split(r"[^A-Za-z0-9]+", stem))
    return names_masks(([word for word in words if word] or [""])[-1].lower())
