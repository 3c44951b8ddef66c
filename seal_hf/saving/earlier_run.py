"""Earlier runs in an output folder, which the programs do not overwrite unless asked."""

from __future__ import annotations

import shutil
from pathlib import Path

from transformers import TrainingArguments
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from .checkpoints import LAST_WORDS, checkpoints_of, last_complete_checkpoint
from .export import ADAPTER_FILES

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
