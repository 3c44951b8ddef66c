"""seal_hf: energy networks as a loss function for fine-tuning.

A loss-net is trained beside the task-net and teaches it how labels depend on each other. At prediction time only the
task-net runs.
"""

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import tasks as tasks  # puts the kinds of output into `core.task.TASKS`; their parts are imported when used

__version__ = "0.1.0"

# bitsandbytes, which peft imports wherever it is installed, warns that a faster kernel for 4-bit weights on CPUs is not
# installed. Nothing depends on it, and most runs have no such weights.
logging.getLogger("bitsandbytes.backends.cpu.ops").addFilter(
    lambda record: "gemm_4bit_forward" not in str(record.msg) or not str(record.msg).startswith("Failed to load")
)


def _runs_the_command() -> bool:
    """True in the process of `seal-hf` or `python -m seal_hf`, which reports mistakes before it imports torch."""
    program = Path(*sys.argv[:1]).name
    if program == "-m":  # while Python looks for the module, whose name precedes the program's words
        return sys.orig_argv[-len(sys.argv) :][0] in ("seal_hf", "-mseal_hf")
    return program in ("seal-hf", "seal-hf.exe")


def _leads_to_decisions() -> bool:
    """True while Python imports this package only as the parent of `seal_hf.decisions`, which needs no torch."""
    frame: Any = sys._getframe(2)  # of the import system; the names that it looks for stand in its frames
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if f"{frame.f_locals.get('name')}.".startswith(f"{__name__}.decisions."):
            return True
        frame = frame.f_back
    return False


if TYPE_CHECKING or not (_runs_the_command() or _leads_to_decisions()):
    from .api import *  # noqa: F403
    from .api import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """A name of `api`, imported when code under the command, or after `seal_hf.decisions`, asks for it."""
        api = import_module(".api", __name__)
        globals().update({each: getattr(api, each) for each in api.__all__})
        if name in ("__all__", *api.__all__):
            return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
