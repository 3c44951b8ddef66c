"""The record of a run, JSON beside each of its checkpoints: the arguments that make the run what it is.

A resume compares its own arguments with the record, so that no run continues from the checkpoint of another run
unnoticed. The Trainer's pickled arguments, `training_args.bin`, are never read. `training/run_record.py` says what is
in a record.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..utils.files import json_object
from ..utils.recorded import recorded

RECORD = "_run.json"  # begins with an underscore, so that a push to the Hub leaves it out

logger = logging.get_logger(__name__)


def write_record(folder: str | Path, record: Mapping[str, Any]) -> None:
    """Write the record of a run into a checkpoint, before the checkpoint is marked as whole.

    Args:
        record: argument -> value, as [`plain`] gives it.
    """
    text = json.dumps(recorded(record), indent=1, ensure_ascii=False, allow_nan=False)
    Path(folder, RECORD).write_text(text + "\n", encoding="utf-8")


def read_record(folder: str | Path) -> dict[str, Any] | None:
    """The record in a checkpoint; None if it lacks one, as from an older version or a plain Trainer.

    Raises:
        ValueError: the file is not a JSON object.
    """
    file = Path(folder, RECORD)
    if not file.is_file():
        return None
    return json_object(file, "Put the file back, or take another checkpoint.")


def check_same_run(
    folder: str | Path, ours: Mapping[str, Any], defaults: Mapping[str, Any], may_differ: bool = False
) -> None:
    """Compare the run that resumes from a checkpoint with the run that wrote it.

    Args:
        ours: the record of the run that resumes.
        defaults: the values of arguments that are newer than the checkpoint, so that its record lacks them.
        may_differ: warn about other arguments instead of refusing them (`--resume_changed true`).

    Raises:
        ValueError: the arguments differ; the message names all that do, with both values.
    """
    theirs = read_record(folder)
    if theirs is None:
        return
    theirs, ours = {**defaults, **theirs}, recorded(ours)
    changed = [name for name, value in ours.items() if name in theirs and theirs[name] not in (value, _end(value))]
    if not changed:
        return
    those = "; ".join(f"{name}: was {theirs[name]!r}, now {ours[name]!r}" for name in changed)
    if not may_differ:
        raise ValueError(
            f"{folder} is of another run ({those}). Resume with the same arguments; allow these changes by "
            "`resume_changed=True` (--resume_changed true); or start a new run in another folder (--output_dir)."
        )
    logger.warning(f"Resumed from {folder} with other arguments ({those}).")


def plain(value: Any) -> Any:
    """A value as plain JSON. The path of a file or folder becomes its last part: the location is not a setting."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in (sorted(value, key=str) if isinstance(value, set) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Path) or (isinstance(value, str) and _is_path(value)):
        return Path(value).name or str(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def _end(value: Any) -> Any:
    """What records of version 0.1.0 hold of a Hub id or a pattern: what follows its last slash."""
    return Path(value).name if isinstance(value, str) else value


def _is_path(value: str) -> bool:
    """False for a Hub id, or a pattern, which may hold slashes too."""
    return os.path.isabs(value) or os.path.exists(value)
