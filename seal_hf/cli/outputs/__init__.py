"""What `seal-hf predict` and `seal-hf evaluate` share; the `files.py` of each task reads and writes its rows."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import OutputKind
    from .flags import Flags


def open_kind(flags: Flags, options: Namespace) -> OutputKind:
    """The [`OutputKind`] for `options.model`, without loading its weights.

    Raises:
        OSError: the folder or repo does not exist.
        ValueError: another kind of model, or a flag for another kind of output.
    """
    from ...saving.kinds import task_of_model  # late, so that `--help` is quick

    hub = {} if options.revision is None else {"revision": options.revision}
    task, space = task_of_model(options.model, hub)
    flags.check_task(options, task.name)
    if space not in task.outputs:
        raise ValueError(f"{options.model} predicts {task.name}, for which `predict` and `evaluate` read no files.")
    return task.outputs[space](options)
