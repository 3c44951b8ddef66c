"""`seal-hf demo`: a page in the browser that shows what a saved task-net predicts.

The page is on this machine alone unless --share is given. Nothing is sent anywhere. The same program serves a Space.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cli.flags import Flags, add_reading, at_least_one, open_kind
from ...cli.programs import run_program
from ...core.task import TASKS
from ...utils.messages import printable
from .page import check_extra, page_of
from .views import View

if TYPE_CHECKING:
    from gradio import Blocks

    from .guard import Access

DESCRIPTION = "Show in the browser what a saved task-net predicts: label sets, tags or masks."
UNREAD = ("input", "output", "split", "tag_column", "probabilities")  # flags of `predict` that a page sets later
MAX_UPLOAD = 25
LOCALHOST = "127.0.0.1"
LOCAL = (LOCALHOST, "localhost")
STYLE = Path(__file__).with_name("style.css")
WEBSITE = "https://huggingface.co"  # shows a Space in a frame
KEPT = 8  # uploads and results may take as many times the largest upload
WAITING = 100  # requests that wait for the nets
MB = 1_000_000


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
    from ...saving.loading import has_loss_net

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


# --- the server: on this machine alone, and without telemetry ---------------------------------------------------------


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Put all temporary files of this process in a new folder while the block runs, also Gradio's uploads and results.

    The folder is removed at the end. Gradio must not be imported before.
    """
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="seal_hf_demo_", ignore_cleanup_errors=True) as folder:
        settings = {"ANALYTICS_ENABLED": "False", "RUN_HISTORY": "False", "TEMP_DIR": folder}
        os.environ.update({f"GRADIO_{name}": value for name, value in settings.items()})
        tempfile.tempdir = folder
        try:
            yield folder
        finally:
            tempfile.tempdir = before


def address_of_space() -> str:
    """The address of the Space of the Hub in which this program runs; empty outside a Space."""
    host = os.environ.get("SPACE_HOST", "")
    return f"https://{host.lower()}" if host else ""


def check_space(space: bool, share: bool) -> None:
    """Raises ValueError if the program runs in a Space without the flag `space`, or elsewhere or shared with it."""
    if space and not address_of_space():
        raise ValueError("`space` is for a Space of the Hub, which sets SPACE_HOST; it is not set here. Leave it out.")
    if space and share:
        raise ValueError("`share` is for a page on this machine, but `space` is set: a Space is public as it is.")
    if address_of_space() and not space:
        raise ValueError(
            f"`space` is not set, but this is the Space {address_of_space()}: no browser could use the page. Give "
            "--space true, in `app.py` launch(..., space=True)."
        )


def check_port(port: int | None) -> None:
    """Raises ValueError for a port that another program uses."""
    if port is None:
        return
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOCALHOST, port))
    except (OSError, OverflowError) as error:
        raise ValueError(f"`port` is {port}, which cannot be used ({error}). Give another one, or none.") from error


def access_to(*, share: bool = False, space: bool = False) -> Access:
    """Who may ask for a page on this machine, for one that is shared, or for a Space of the Hub."""
    from .guard import Access

    access = Access(
        names=None if space else {*LOCAL},  # a Space's proxy has several, and no website's name leads behind it
        local=LOCAL,
        framed_by=WEBSITE if space else "",
        loads_nothing=not share,
    )
    if space:
        access.open_to(address_of_space())
    return access


def start(
    page: Blocks,
    folder: str,
    *,
    share: bool = False,
    space: bool = False,
    port: int | None = None,
    max_upload: int = 25,
) -> str:
    """Serve a page; returns its address at once.

    Args:
        folder: of uploads and results.
        share: also at a public address, through Gradio's tunnel; for this, the page loads Gradio's scripts from its
            own server.
        space: as a Space of the Hub, whose website shows the page in a frame.
        port: on this machine; default: the first free one from 7860 on.
        max_upload: largest file, in MB. All uploads and results together take at most eight times as much.
    """
    import gradio as gr

    from .guard import Guard, Uploads

    access = access_to(share=share, space=space)
    uploads = Uploads(Path(folder), KEPT * max_upload * MB)

    @asynccontextmanager
    async def guarded(app: Any) -> AsyncIterator[None]:
        assert app.middleware_stack is not None  # this runs in it
        app.middleware_stack = Guard(app.middleware_stack, access, uploads)  # around Gradio's own middleware
        keeping = asyncio.create_task(uploads.keep_room())
        yield
        keeping.cancel()

    fonts: dict[str, Any] = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    theme = gr.themes.Default(primary_hue="blue", **fonts).set(block_info_text_color="*neutral_500")
    page.queue(max_size=WAITING)
    _, url, _ = page.launch(
        prevent_thread_lock=True,
        quiet=True,
        share=share,
        server_name=None if space else LOCALHOST,  # a Space names its own
        server_port=port,
        max_file_size=max_upload * MB,
        enable_monitoring=False,
        ssr_mode=False,
        theme=theme,
        css_paths=STYLE,
        footer_links=[],
        app_kwargs={"lifespan": guarded},
    )
    if page.share_url:
        access.open_to(page.share_url)
    return url


def serve(page: Blocks) -> None:
    """Wait until Ctrl-C, or a signal that is handled like it, and end the server."""
    try:
        while page.is_running:
            time.sleep(0.1)
    finally:
        page.close(verbose=False)
