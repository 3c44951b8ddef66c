"""Files that are written completely or not at all, and JSON files that others may have damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def json_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        remedy: a sentence that ends the message of an error.

    Raises:
        ValueError: the file is not JSON, or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not readable as JSON: {error}. {remedy}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}; expected a JSON object. {remedy}")
    return found
