"""The record of a run, JSON beside each of its checkpoints: the arguments that make the run what it is.

A resume compares its own arguments with the record, so that no run continues from the checkpoint of another run
unnoticed. The Trainer's pickled arguments, `training_args.bin`, are never read. `training/checkpoints.py` says what is
in a record. A program does not begin in a folder that holds another run.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, logging

from ..utils.files import json_object
from ..utils.recorded import recorded
from .checkpoints import LAST_WORDS, checkpoints_of, last_complete_checkpoint
from .export import ADAPTER_FILES

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
        defaults: the values of arguments that the checkpoint's record lacks, since they are newer, or has as null,
            since the net decided them.
        may_differ: warn about other arguments instead of refusing them (`--resume_changed true`).

    Raises:
        ValueError: the arguments differ; the message names all that do, with both values.
    """
    theirs = read_record(folder)
    if theirs is None:
        return
    theirs = {
        **defaults,
        **{name: value for name, value in theirs.items() if value is not None or name not in defaults},
    }
    ours = recorded(ours)
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


RESULTS = "all_results.json"
FINISHED = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, *ADAPTER_FILES, RESULTS)


def check_output_dir(args: TrainingArguments) -> None:
    """Check that the output folder is free for a run, or that the run resumes from it or may overwrite it.

    Raises:
        ValueError: the folder holds a finished run, a saved model, or whole checkpoints; the message says what to do.
    """
    folder = Path(str(args.output_dir))
    if vars(args).get("overwrite_output_dir") or goes_on(args):
        return
    last = last_complete_checkpoint(folder)
    files = [name for name in FINISHED if (folder / name).is_file()]
    resume = "R" if last is None else "Go on with it by --resume_from_checkpoint last, r"
    if last is not None and files in ([], [RESULTS]):  # results of the training; the nets are not saved yet
        found = f"a run that was interrupted ({last.name})"
    elif files:
        found = f"a finished run ({files[0]})"
    else:
        return
    raise ValueError(
        f"{folder} holds {found}. {resume}eplace it by --overwrite_output_dir true, or choose another --output_dir."
    )


def goes_on(args: TrainingArguments) -> bool:
    """True if the run resumes from a checkpoint in its own output folder."""
    wanted, folder = args.resume_from_checkpoint, Path(str(args.output_dir))
    if not wanted:
        return False
    if str(wanted).lower() in LAST_WORDS:
        return last_complete_checkpoint(folder) is not None
    return Path(wanted).resolve().parent == folder.resolve()


def remove_checkpoints(args: TrainingArguments) -> list[str]:
    """Delete the checkpoints in an output folder that a run will overwrite, since a later resume would take the one
    with the highest step. The nets and results stay until the run writes its own.

    Returns:
        the names of the deleted checkpoints, by step.
    """
    folders = [] if goes_on(args) else checkpoints_of(str(args.output_dir))
    for folder in folders:
        shutil.rmtree(folder)
    return [folder.name for folder in folders]
