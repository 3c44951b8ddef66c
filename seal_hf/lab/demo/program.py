"""`seal-hf demo`: a page in the browser that shows what a saved task-net predicts.

The page is on this machine alone unless --share is given. Nothing is sent anywhere. The same program serves a Space.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...cli.flags import Flags, add_reading, at_least_one, open_kind
from ...cli.programs import run_program
from ...core.task import TASKS
from ...utils.messages import printable
from .page import check_extra, page_of
from .server import KEPT, check_port, check_space, serve, start, temporary_folder
from .views import View

if TYPE_CHECKING:
    from gradio import Blocks

DESCRIPTION = "Show in the browser what a saved task-net predicts: label sets, tags or masks."
UNREAD = ("input", "output", "split", "tag_column", "probabilities")  # flags of `predict` that a page sets later
MAX_UPLOAD = 25


def main(argv: Sequence[str] | None = None) -> None:
    """Serve the page until Ctrl-C.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError, ImportError: one line tells what is wrong and what to do.
    """
    options = demo_flags().parsed(argv)
    check_port(options.port)
    check_space(options.space, options.share)
    print(printable(f"seal-hf demo: loading {options.model} ..."), file=sys.stderr, flush=True)
    with temporary_folder() as folder:
        page = page_of(view_of(argv))
        asked = {name: getattr(options, name) for name in ("share", "space", "port", "max_upload")}
        url = start(page, folder, **asked)
        print(printable(f"seal-hf demo: {options.model} at {url} (Ctrl-C ends it)"), flush=True)
        with suppress(KeyboardInterrupt):
            serve(page)


def launch(model: str, **options: Any) -> None:
    """Serve the demo from Python, such as in the `app.py` of a Space.

    It ends as the command does, also after a signal or an error.

    Args:
        model: folder or Hub id.
        options: flags of `seal-hf demo`, such as `decoder="threshold"`.
    """
    run_program(lambda: main(words_of(model, options)))


def build(model: str, **options: Any) -> Blocks:
    """Build the page without a server, so that it can be part of another page.

    It takes the arguments of [`launch`] and raises the errors of [`main`].
    """
    return page_of(view_of(words_of(model, options)))


def words_of(model: str, options: Mapping[str, Any]) -> list[str]:
    """The words of a command line that gives these options."""
    given = {"model": model, **options}
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


def demo_flags() -> Flags:
    """The flags of this program."""
    flags = Flags("seal-hf demo", DESCRIPTION)
    flags.flag("model", required=True, metavar="FOLDER_OR_HUB_ID", help="This saved task-net is shown.")
    add_reading(flags)
    flags.flag(
        "port",
        type=at_least_one,
        help="The page is at this port of the machine; default: the first free one from 7860 on.",
    )
    flags.flag(
        "max_upload",
        type=at_least_one,
        default=MAX_UPLOAD,
        help=f"A file has at most this many MB (default {MAX_UPLOAD}); all together take {KEPT} times as much.",
    )
    flags.flag("share", type=bool, help="The page is also at a public address for a week, through a server of Gradio.")
    flags.flag(
        "space",
        type=bool,
        help="The page is that of a Space of the Hub: at its address, and in a frame of huggingface.co.",
    )
    return flags


def view_of(argv: Sequence[str] | None) -> View:
    """The view of the model that a command line names, with its loss-net if there is one.

    Raises:
        ImportError: Gradio is missing.
        OSError: the folder or repo does not exist.
        ValueError: it holds no task-net, or an option is unknown or wrong.
    """
    from ...reports.common import Verdict
    from ...saving.kinds import has_loss_net

    flags = demo_flags()
    options = flags.parsed(argv)
    check_extra()
    vars(options).update(dict.fromkeys(UNREAD), energy=False, escape_formulas=True)
    kind = open_kind(flags, options)
    kind.check_decoder()
    verdict = Verdict.saved_in(kind.config)
    taught = verdict is None or verdict.taught  # energies of a loss-net that taught nothing would mislead
    options.energy = taught and options.dtype == "float32" and has_loss_net(options.model, kind.hub)
    _ = kind.model
    views = {kind: task.views.get(space) for task in TASKS.values() for space, kind in task.outputs.items()}
    if (view := views[type(kind)]) is None:
        raise ValueError(f"The page does not show what {options.model} predicts. Use `seal-hf predict`.")
    return view(kind)
