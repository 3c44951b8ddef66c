"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str], shared: bool = False) -> Iterator[Path]:
    """Gives a path beside `path` to write to, and moves the file there when the block ends; its folder is made.

    A block that is cut off leaves `path` as it was. `shared`: other processes may be writing the same file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished" if shared else f"{path.name}.unfinished")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
