"""The arguments that guard an earlier run, for all trainers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import TrainingArguments

from ..saving.checkpoints import as_pickled
from ..utils.options import check_value


@dataclass
class GuardedArguments(TrainingArguments):
    """[`~transformers.TrainingArguments`], and what a run may do with an earlier run.

    Parameters that control an earlier run in the output folder:
        resume_from_checkpoint (`str`, optional): the folder of a checkpoint; `true`, the last complete one in the
            output folder; or `last`, the same, but a run without checkpoints starts anew. Programs read it; in Python
            it is an argument of `train`, as with the Trainer.
        resume_changed (`bool`, default False): resume although arguments, rows or nets differ from those of the
            checkpoint's run, which are in its `_run.json`. Without it, such a resume is a ValueError.
        overwrite_output_dir (`bool`, default False): programs replace the run that the output folder holds. The
            trainers, like the Trainer of transformers 5, do not check the folder.
    """

    resume_from_checkpoint: str | None = field(
        default=None, metadata={"help": "Resume from a checkpoint: its folder, or last: the last one, if any."}
    )
    resume_changed: bool = field(
        default=False, metadata={"help": "Resume although arguments differ from the checkpoint's."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Replace the run that the output folder holds."}
    )

    def __getstate__(self) -> dict[str, Any]:
        return as_pickled(vars(self))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("seed", "data_seed"):
            check_value(name, getattr(self, name), least=0, whole=True)
