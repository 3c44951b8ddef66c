"""seal_hf: energy networks as a loss function for fine-tuning.

A loss-net is trained beside the task-net and teaches it how labels depend on each other. At prediction time only the
task-net runs.

Importing the package registers its nets with transformers. The rest is imported by name, when it is first used.
"""

import ast
import logging
import pkgutil
import sys
from importlib import import_module
from importlib.util import find_spec
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


# modules whose nets the Auto classes and pipelines of transformers know once this package is imported
REGISTERED = ("loss_net.loss_net nets.cnn nets.encoders nets.recurrent nets.text_pooling tasks.masks.fcn").split()


def _register_nets() -> None:
    for module in REGISTERED:
        import_module(f".{module}", __name__)


def _where() -> dict[str, str]:
    """Name of `api` -> the module that has it, as `api.py` imports it."""
    tree = ast.parse(pkgutil.get_data(__name__, "api.py") or b"")
    return {
        alias.name: node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def __getattr__(name: str) -> Any:
    """A name of `api`, whose module is imported now, or a folder of this package."""
    where = {} if name.startswith("__") and name != "__all__" else _where()
    if name == "__all__":
        return sorted(where)
    if name in where:
        _register_nets()
        globals()[name] = getattr(import_module(f".{where[name]}", __name__), name)
        return globals()[name]
    if where and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_where()])


if TYPE_CHECKING:
    from .api import *  # noqa: F403
    from .api import __all__ as __all__
elif not (_runs_the_command() or _leads_to_decisions()):
    _register_nets()
