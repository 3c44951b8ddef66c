"""Predictions for all rows of a file, or for several images: what `seal-hf predict` writes, and its first rows."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .limits import AT_ONCE, check_file, check_input
from .views import View

IN_USE = "in_use"  # folder of files that are being read or written
Report = Callable[[int, int | None], None]  # rows that are done, and all of them, if known


@dataclass
class FilePredictions:
    """The predictions for a file.

    Attributes:
        file: their file, or a zip of masks.
        count: number of rows.
        rows: what was written for the first ones.
        inputs: what the task-net read for these, as [`View.answer`] takes it.
        notes: what was chosen or left out.
    """

    file: Path
    count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def predict_file(
    view: View, files: Sequence[Path], decoder: str, energy: bool, folder: Path, report: Report
) -> FilePredictions:
    """Write the predictions of a file into a new folder under `folder`.

    Args:
        files: a file of rows; or several images.
        energy: write energies too.
        report: is called after each part of the rows.

    Raises:
        ValueError: the file is damaged or of another kind, and is named without its folder; two images share a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    given, output = place / IN_USE / "given", place / IN_USE / f"predictions{view.output_suffix(files[0])}"
    try:
        gather(files, given)
        largest = max(check_file(file) for file in given.iterdir())
        several = view.several and files[0].suffix.lower() != ".npz"
        source = given if several else given / files[0].name
        kind = view.under(decoder, input=str(source), output=str(output), energy=energy)
        found = _written(view, kind, AT_ONCE // max(largest, 1), report)
        if output.is_dir():
            output = Path(shutil.make_archive(str(output), "zip", output))
        name = f"{files[0].stem}_{output.name}" if len(files) == 1 else output.name
        found.file = output.rename(place / name)
    except ValueError as error:
        raise ValueError(str(error).replace(f"{given}/", "").replace(str(given), "the files")) from error
    finally:
        shutil.rmtree(place / IN_USE, ignore_errors=True)
    return found


def _written(view: View, kind: Any, most: int, report: Report) -> FilePredictions:
    """Write the predictions of a kind's input into its output, with `most` rows in memory."""
    reader, found = kind.open_input(gold=False), FilePredictions(Path(kind.options.output))
    total, shown = reader.total, min(view.shown, most)
    size = min(kind.rows_per_chunk, 4 * kind.options.batch_size, most)
    with kind.writer(found.file) as writer:
        for chunk in reader.chunks(size):
            for i, each in enumerate(chunk.inputs, start=found.count + 1):
                check_input(each, f"{view.unit} {i}")
            rows = kind.predict(chunk)
            writer.write(rows)
            left = shown - len(found.rows)
            found.count += len(rows)
            found.rows += rows[:left]
            found.inputs += view.kept(chunk.inputs[:left])
            report(found.count, total)
    found.notes = [*reader.notes, *writer.notes]
    return found


def gather(files: Sequence[Path], folder: Path) -> None:
    """Give these files a second name in a new folder, so that they stay there until they are read.

    Raises:
        ValueError: two of them have the same name, or one is no longer there.
    """
    folder.mkdir(parents=True)
    for file in files:
        if (folder / file.name).exists():
            raise ValueError(f"Two images are called {file.name}. Rename one of them.")
        try:
            os.link(file, folder / file.name)
        except FileNotFoundError as error:
            raise ValueError(f"{file.name} has made room for newer uploads. Upload it again.") from error
        except OSError:  # the disk has no second names
            shutil.copyfile(file, folder / file.name)
