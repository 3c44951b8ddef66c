"""The arguments that guard an earlier run, for all trainers."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import TrainingArguments


@dataclass
class GuardedArguments(TrainingArguments):
    """[`~transformers.TrainingArguments`], and what a run may do with an earlier one.

    Parameters that guard an earlier run:
        resume_from_checkpoint (`str`, optional): as the Trainer's: the folder of a checkpoint; `true`, the last whole
            one in the output folder; or `last`, the same, where there is one.
        resume_changed (`bool`, default False): go on from a checkpoint although arguments that make the run differ from
            those it was written with, which stand beside it in `_run.json`. Else such a resume is refused.
        overwrite_output_dir (`bool`, default False): of the programs: replace the run that the output folder holds. The
            trainers themselves, as the Trainer of transformers 5, do not look.
    """

    resume_from_checkpoint: str | None = field(
        default=None, metadata={"help": "Go on from a checkpoint: its folder, or last: the last whole one, if any."}
    )
    resume_changed: bool = field(default=False, metadata={"help": "Resume with arguments other than the checkpoint's."})
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Replace the run that the output folder holds."}
    )
