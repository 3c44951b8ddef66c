"""Arrays in `.npz` and `.npy` files: all of them, or the rows of one, which need not fit into memory."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from .common import DataError

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# errors from a damaged file
BROKEN = (OSError, ValueError, KeyError, EOFError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)


def reason(error: Exception) -> str:
    """Why NumPy does not read a file, without its advice to unpickle what a stranger made."""
    unpickled = "it is no file of arrays, or holds Python objects, which are not unpickled"
    return unpickled if "pickle" in str(error) else str(error)


def arrays_of(name: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz`, or that of an `.npy` as `arr_0`. Raises DataError for a file that is missing or damaged,
    or holds Python objects."""
    try:
        with open(name, "rb") as file:
            stored = np.load(file, allow_pickle=False)
            return {"arr_0": stored} if isinstance(stored, np.ndarray) else {key: stored[key] for key in stored.files}
    except FileNotFoundError as error:
        raise DataError(f"{name}: no such file.") from error
    except BROKEN as error:
        raise DataError(
            f"{name}: not readable as arrays: {reason(error)}. Is the file whole? Save it with np.savez."
        ) from error


class StoredArray:
    """An array (N, ...) of an `.npz` file.

    Attributes:
        shape: (N, ...).
        dtype: of its values.

    Raises:
        DataError: the file is damaged or lacks this array; or the array holds Python objects, which are not unpickled.
    """

    def __init__(self, file: Path, name: str):
        self.file, self.name = file, name
        with self._opened() as stream:
            self.shape, columns_first, self.dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
            if self.dtype.hasobject or not self.shape:
                raise ValueError(f"it holds {'objects' if self.dtype.hasobject else 'a single value'}")
            self._by_columns = columns_first and len(self.shape) > 1
            expected = stream.tell() + math.prod(self.shape) * self.dtype.itemsize
            if min(self.shape) < 0 or expected != self._size:  # nothing is made for rows that are not there
                raise ValueError(f"its header says {self.shape}, {expected} bytes, but there are {self._size}")

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[np.ndarray]:
        count = math.prod(self.shape[1:])
        if self._by_columns:  # as of MATLAB: no row is stored in one place
            with self._opened() as stream:
                yield from np.lib.format.read_array(stream, allow_pickle=False)
            return
        with self._opened() as stream:
            HEADERS[np.lib.format.read_magic(stream)](stream)
            for _ in range(len(self)):
                content = stream.read(count * self.dtype.itemsize)
                yield np.frombuffer(content, self.dtype, count).reshape(self.shape[1:])

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self.file) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                if self.name not in names:
                    raise DataError(
                        f"{self.file}: arrays {', '.join(names) or '(none)'}; expected one called {self.name!r}."
                    )
                self._size = archive.getinfo(f"{self.name}.npy").file_size
                with archive.open(f"{self.name}.npy") as stream:
                    yield stream
        except DataError:
            raise
        except BROKEN as error:
            raise DataError(
                f"{self.file}: {self.name!r} is not readable as an array of rows: {error}. Save it with "
                f"np.savez(file, {self.name}=np.ascontiguousarray(...))."
            ) from error
