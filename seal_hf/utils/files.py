"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str], shared: bool = False) -> Iterator[Path]:
    """Yield a path beside `path` to write to, and rename it to `path` when the block ends. The folder is made.

    If the block is interrupted, `path` stays as it was. `shared`: other processes may be writing the same file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished" if shared else f"{path.name}.unfinished")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
