"""Masks as PNG files: a folder, which appears when it is complete, or a single file."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from ...data.common import DataError
from ...data.writers import Rows, Writer
from ...utils.files import new_name, whole_file

PROBABILITY, ENERGIES = "_probability", "energies.json"


def check_mask_output(output: Path, names: Sequence[str], source: Path, alone: bool) -> None:
    """Raise DataError if masks cannot be written, before anything is predicted.

    Args:
        output: a folder, or a `.png` file for a single image.
        names: of the images.
        source: file or folder of the images.
        alone: True if only masks are written, without probabilities and energies.
    """
    if importlib.util.find_spec("PIL") is None:
        raise DataError("Writing masks as .png files needs pillow: pip install 'seal_hf[vision]'.")
    if output.suffix.lower() == ".png" and (len(names) > 1 or not alone):
        why = f"of {len(names)} images" if len(names) > 1 else "with probabilities or energies"
        raise DataError(f"`output` is {str(output)!r}, but masks {why} are several files. Give a folder.")
    read = [source.resolve(), *((source / name).resolve() for name in ("images", "masks"))]
    if output.resolve() in (*read, *read[0].parents):
        raise DataError(f"`output` is {str(output)!r}, but it holds the images of {source}. Give another folder.")
    if output.exists() and output.is_dir() == (output.suffix.lower() == ".png"):
        raise DataError(f"`output` is {str(output)!r}, a {'folder' if output.is_dir() else 'file'}. Give another name.")
    files = sorted(output.iterdir()) if output.is_dir() else []
    others = [file.name for file in files if file.suffix.lower() != ".png" and file.name != ENERGIES]
    if others:
        raise DataError(
            f"`output` is {str(output)!r}, a folder that would be replaced as a whole, but it holds "
            f"{', '.join(others[:3])}. Give another name."
        )
    known = set(names)
    clash = next((name for name in names if not alone and f"{name}{PROBABILITY}" in known), None)
    if clash is not None:
        raise DataError(
            f"{source}: the probabilities of {clash} and the mask of {clash}{PROBABILITY} would be the same file, "
            f"{clash}{PROBABILITY}.png. Rename one of the images."
        )


class MaskWriter(Writer):
    """A `.png` file per row: `mask` (H, W) of 0 and 1 as 0 and 255, or with `colours` (256, 3) class ids in a palette;
    beside it, `probability` (H, W) in [0, 1], if given, as grey values. All `energy` values go to `energies.json`, by
    name."""

    def __init__(self, place: Path, file: Path | None = None, colours: np.ndarray | None = None):
        self.place, self.file, self.colours = place, file, colours
        self.energies: IO[str] | None = None

    def write(self, rows: Rows) -> None:
        for row in rows:
            mask = row["mask"] if self.colours is not None else 255 * row["mask"]
            self._save(mask, self.file or self.place / f"{row['name']}.png", self.colours)
            if "probability" in row:
                grey = (row["probability"] * 255.0).round().astype(np.uint8)
                self._save(grey, self.place / f"{row['name']}{PROBABILITY}.png")
            if "energy" in row:
                self._add(row["name"], row["energy"])

    def add(self, part: Path) -> None:
        if self.file is not None:
            _link(part, self.file)
            return
        for file in sorted(part.iterdir()):
            if file.name != ENERGIES:
                _link(file, self.place / file.name)
                continue
            for name, energy in json.loads(file.read_text(encoding="utf-8")).items():
                self._add(name, energy)

    def close(self) -> None:
        if self.energies is not None:
            self.energies.write("\n}\n")
            self.energies.close()

    def _save(self, values: np.ndarray, file: Path, colours: np.ndarray | None = None) -> None:
        from PIL import Image  # pillow is optional

        image = Image.fromarray(values)
        if colours is not None:
            image.putpalette(colours.tobytes())
        image.save(file, format="PNG")

    def _add(self, name: str, energy: float) -> None:
        first = self.energies is None
        if self.energies is None:
            self.energies = open(self.place / ENERGIES, "w", encoding="utf-8")
        self.energies.write(("{\n" if first else ",\n") + f"{json.dumps(name, ensure_ascii=False)}: {energy!r}")


def _link(file: Path, other: Path) -> None:
    """Give a file another name too, or copy it where the file system has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)


@contextmanager
def mask_writer(output: Path, colours: np.ndarray | None = None) -> Iterator[MaskWriter]:
    """A writer for a `.png` file or a folder, which appears, and replaces an earlier one, when the block ends.

    Args:
        colours: as for [`MaskWriter`].
    """
    if output.suffix.lower() == ".png":
        with whole_file(output) as unfinished:
            yield MaskWriter(unfinished.parent, unfinished, colours)
        return
    unfinished, replaced = (new_name(output, ending) for ending in ("unfinished", "replaced"))
    unfinished.mkdir(parents=True)
    writer = MaskWriter(unfinished, colours=colours)
    try:
        try:
            yield writer
        finally:
            writer.close()
        if output.is_dir():
            output.rename(replaced)
        unfinished.rename(output)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
