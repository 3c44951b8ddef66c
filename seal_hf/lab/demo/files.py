"""Predictions for all rows of a file, or for several images: what `seal-hf predict` writes, and its first rows."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import parquet

from ...data.image_files import IMAGE_SUFFIXES, as_rgb, pixels
from ...data.stored_arrays import StoredArray
from .views import View

MOST_PIXELS = 25_000_000  # of an image
MOST_CHARACTERS = 1_000_000  # of a text
MOST_VALUES = 10_000_000  # of a parquet file
ROWS = 1024  # of a parquet file that are looked at together
AT_ONCE = 150_000_000  # bytes of the images in memory, and of those that the page shows
MOST_BYTES = 1_000_000_000  # of a file's arrays or columns
ELSEWHERE = "`seal-hf predict` has no such limit."
LIMIT = f"the page reads at most {MOST_CHARACTERS:,}. {ELSEWHERE}"


def check_file(file: Path) -> int:
    """The bytes of its largest image, from the header of a file; 0 if it holds none. Files that are damaged pass: their
    reader says so.

    Raises:
        ValueError: what the file holds is too large for the page.
    """
    suffix, size = file.suffix.lower(), 0
    if suffix in IMAGE_SUFFIXES:
        size = _pixels(_size_of_image(file), file.name)
    elif suffix == ".npz":
        size = _pixels(StoredArray(file, "images").shape[1:3], f"{file.name}, each image")
        with zipfile.ZipFile(file) as archive:
            _check_bytes(sum(each.file_size for each in archive.infolist()), file.name)
    elif suffix == ".parquet":
        with suppress(pa.ArrowException, OSError):
            _check_parquet(file)
    return 3 * size


def check_input(given: Any, where: str) -> None:
    """Raises ValueError for a text, a pair of texts or a sentence that is too long for the page."""
    texts = given if isinstance(given, tuple) else [getattr(given, "text", given)]
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if longest > MOST_CHARACTERS:
        raise ValueError(f"{where} has {longest:,} characters; {LIMIT}")


def image_of(file: str | None) -> Any:
    """The pixels (H, W, 3) uint8 of an uploaded image.

    Raises:
        ValueError: the file is missing, damaged, too large or of another kind.
    """
    if not file:
        raise ValueError("There is no image. Upload or paste one.")
    path = Path(file)
    try:
        check_file(path)
        return as_rgb(pixels(path), "the image")
    except ValueError as error:
        raise ValueError(str(error).replace(f"{path.parent}/", "")) from error


def _size_of_image(file: Path) -> Sequence[int]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            return image.size
    except Image.DecompressionBombError:
        return MOST_PIXELS, 2
    except Exception:  # of many kinds
        return (0,)


def _pixels(size: Sequence[int], what: str) -> int:
    if (found := math.prod(size)) > MOST_PIXELS:
        raise ValueError(f"{what} has more than {MOST_PIXELS:,} pixels, which the page does not read. Make it smaller.")
    return found


def _check_parquet(file: Path) -> None:
    data = parquet.read_metadata(file)
    columns = [data.row_group(i).column(j) for i in range(data.num_row_groups) for j in range(data.num_columns)]
    _check_bytes(sum(column.total_uncompressed_size for column in columns), file.name)
    if (found := sum(column.num_values for column in columns)) > MOST_VALUES:
        raise ValueError(f"{file.name} has {found:,} values; the page reads at most {MOST_VALUES:,}. {ELSEWHERE}")
    texts = {column.path_in_schema for column in columns if column.physical_type == "BYTE_ARRAY"}
    with parquet.ParquetFile(file, read_dictionary=sorted(texts)) as reader:  # a text that is repeated is there once
        for batch in reader.iter_batches(ROWS):
            longest = max(map(_longest, batch.columns), default=0)
            if longest > MOST_CHARACTERS:
                raise ValueError(f"{file.name} has a value of {longest:,} bytes; {LIMIT}")


def _longest(array: pa.Array) -> int:
    """Bytes of the longest text in an Arrow array."""
    if pa.types.is_dictionary(array.type):
        return _longest(array.dictionary)
    if pa.types.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    if pa.types.is_nested(array.type):
        return _longest(array.flatten())
    is_text = any(test(array.type) for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string))
    return pc.max(pc.binary_length(array)).as_py() or 0 if is_text else 0


def _check_bytes(size: int, what: str) -> None:
    if size > MOST_BYTES:
        raise ValueError(
            f"{what} has {size:,} bytes unpacked; the page reads at most {MOST_BYTES:,}. Give fewer rows. {ELSEWHERE}"
        )


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
