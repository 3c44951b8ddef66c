"""Predictions for all rows of a file, or for several images: what `seal-hf predict` writes, and its first rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.inputs.base import Chunk
from .views import View

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
        DataError: the file is damaged or of another kind; two images share a name.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    source = gathered(files, place / "images") if view.several and files[0].suffix != ".npz" else files[0]
    name = f"{files[0].stem}_predictions" if len(files) == 1 else "predictions"
    suffix = view.output_suffix(files[0])
    output = place / f"{name}{suffix}"
    asked = view.under(decoder, input=str(source), output=str(output), energy=energy)
    reader = asked.open_input(gold=False)
    total, size = reader.total, min(asked.rows_per_chunk, 4 * asked.options.batch_size)
    found = FilePredictions(output)
    with asked.writer(output) as writer:
        for chunk in reader.chunks(size):
            rows = asked.predict(chunk)
            writer.write(rows)
            _keep(found, chunk, rows, view)
            report(found.count, total)
    found.notes = list(reader.notes)
    if not suffix:
        found.file = Path(shutil.make_archive(str(output), "zip", output))
        shutil.rmtree(output)
    shutil.rmtree(place / "images", ignore_errors=True)
    return found


def _keep(found: FilePredictions, chunk: Chunk, rows: list[dict[str, Any]], view: View) -> None:
    left = view.shown - len(found.rows)
    found.count += len(rows)
    found.rows += rows[:left]
    found.inputs += view.kept(chunk.inputs[:left])


def gathered(files: Sequence[Path], folder: Path) -> Path:
    """A folder with copies of these images.

    Raises:
        ValueError: two of them have the same name.
    """
    folder.mkdir()
    for file in files:
        if (folder / file.name).exists():
            raise ValueError(f"Two images are called {file.name}. Rename one of them.")
        shutil.copyfile(file, folder / file.name)
    return folder
