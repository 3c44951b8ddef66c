"""The frame of the programs: their name, how they start and end, when their training stops early.

This module imports no library: many mistakes are reported at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..utils.messages import printable

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainingArguments

USAGE, INTERRUPTED = 2, 130  # exit statuses: of a mistaken command line, and of shells after SIGINT


class UsageError(ValueError):
    """A flag is mistyped or missing."""


def program_name() -> str:
    """This program's name in its messages, such as `run_mlc.py` or `seal-hf train mlc`."""
    return Path(sys.argv[0]).name


def given_flags(words: Iterable[str]) -> frozenset[str]:
    """The argument names of the flags on a command line."""
    return frozenset(word[2:].split("=")[0].replace("-", "_") for word in words if word.startswith("--"))


def check_one_process(what: str) -> None:
    """Raises ValueError if a launcher has started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"{what} runs in one process: start it without a launcher.")


def run_program(main: Callable[[], object]) -> None:
    """Run `main()` as a command: an error that the user can fix, and Ctrl-C, end it with one line, no traceback."""
    try:
        main()
        if "accelerate" in sys.modules:
            from accelerate import PartialState

            PartialState().destroy_process_group()  # if left open, its threads sometimes abort the exit
    except Exception as error:
        if not _can_be_mended(error):
            raise
        print(printable(f"{program_name()}: {error}"), file=sys.stderr)
        sys.exit(USAGE if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        print(f"{program_name()}: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _can_be_mended(error: Exception) -> bool:
    if isinstance(error, RuntimeError):
        from ..training.meters import NonFiniteLossError

        return isinstance(error, NonFiniteLossError)
    return isinstance(error, (ValueError, OSError, ImportError))


def early_stopping(args: TrainingArguments, patience: int) -> list[TrainerCallback]:
    """The callback for `--patience`, the number of evaluations without gain after which a run stops; 0: no callback.

    Raises:
        ValueError: a negative number, or a run without evaluations or without a metric.
    """
    from ..training.patience import Patience

    if patience < 0:
        raise ValueError(f"`patience` is {patience}; it must be a number of evaluations, or 0 to never stop early.")
    without = [
        f"{name} is {found!r}"
        for name, found, missing in (
            ("eval_strategy", str(getattr(args.eval_strategy, "value", args.eval_strategy)), "no"),
            ("metric_for_best_model", args.metric_for_best_model, None),
        )
        if found == missing
    ]
    if patience and without:
        raise ValueError(
            f"`patience` is {patience}, but {' and '.join(without)}: there is nothing to wait for. Give "
            "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end true and a --metric_for_best_model, "
            "or leave --patience out."
        )
    return [Patience(patience)] if patience else []
