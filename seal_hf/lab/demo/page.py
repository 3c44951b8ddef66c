"""The page of a view: its head, the decoder and the threshold, and two tabs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ...cli.programs import message_of
from ...reports.common import NEXT, Verdict
from ...utils.messages import one_line
from . import markup
from .files import predict_file
from .views import OWN, View

if TYPE_CHECKING:
    import gradio as gr

MOST_SHOWN = 600  # characters of a message
WIDTH = 280  # pixels of a column, at least; a narrower window shows one under the other
RUNS: dict[str, Any] = {"concurrency_id": "model"}  # the nets run for one visitor at a time
QUIET: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private", **RUNS}
MOVING: dict[str, Any] = {**QUIET, "show_progress": "hidden", "trigger_mode": "always_last"}  # of a slider


def one_tab(view: View, decoder: gr.Dropdown, threshold: gr.Slider) -> None:
    """The fields for one input beside its answer. The answer changes with the decoder and the threshold."""
    import gradio as gr

    with gr.Row():
        with gr.Column(min_width=WIDTH):
            fields = view.inputs()
            button = gr.Button("Predict", variant="primary")
            if view.examples:
                gr.Examples([list(values) for values in view.examples], fields, label="Examples", cache_examples=False)
        with gr.Column(min_width=WIDTH):
            outputs = view.outputs()

    @told
    def predict(decoder: str, threshold: float, *values: Any) -> Any:
        return packed(view.answer(view.read(*values), chosen(decoder, threshold)))

    def again(decoder: str, threshold: float, *values: Any) -> Any:
        if not any(values):  # nothing is typed in yet
            return packed([gr.skip() for _ in outputs])
        return predict(decoder, threshold, *values)

    def moved(threshold: float, *values: Any) -> Any:
        return again(OWN, threshold, *values)

    inputs = [decoder, threshold, *fields]
    button.click(predict, inputs, outputs, show_progress="minimal", api_name="predict", **RUNS)
    decoder.input(again, inputs, outputs, **QUIET)
    threshold.input(moved, inputs[1:], outputs, **MOVING)


def file_tab(view: View, decoder: gr.Dropdown, threshold: gr.Slider) -> None:
    """A file, its predictions to download, its first rows, and the answer of one of them."""
    import gradio as gr

    several: Any = "multiple" if view.several else "single"
    with gr.Row():
        with gr.Column(min_width=WIDTH):
            upload = gr.File(label=", ".join(view.files), file_types=list(view.files), file_count=several, height=140)
        with gr.Column(min_width=WIDTH):
            energy = gr.Checkbox(label="energies too", visible=view.has_energies)
            button = gr.Button("Predict", variant="primary")
            result = gr.File(label="Predictions", interactive=False, visible=False)
    with gr.Column(visible=False) as answers:
        said = gr.HTML(apply_default_css=False)
        preview = view.preview()
        row = gr.Slider(1, 2, value=1, step=1, label=view.unit.capitalize(), visible=False)
        outputs = view.outputs()
    rows = gr.State([])
    bar = gr.Progress()

    @told
    def predict(decoder: str, threshold: float, files: Any, energy: bool = False, progress: Any = bar) -> Any:
        if not files:
            raise ValueError("There is no file. Choose one.")

        def report(done: int, total: int | None) -> None:
            progress((done, total), desc="Predicting", unit=f"{view.unit}s")

        paths = [Path(file) for file in (files if isinstance(files, list) else [files])]
        decided_by = chosen(decoder, threshold)
        found = predict_file(view, paths, decided_by, energy, Path(upload.GRADIO_CACHE), report)
        shown = len(found.inputs)
        lines = [f"{found.count} {view.unit}{'s' * (found.count != 1)}, decided by {decided_by}."]
        lines += [f"The first {shown} are shown."] * (shown < found.count)
        return (
            gr.File(str(found.file), visible=True),
            gr.Column(visible=True),
            markup.answer(*map(markup.note, [" ".join(lines), *found.notes])),
            view.previewed(found.rows, found.inputs),
            gr.Slider(1, max(shown, 2), value=1, visible=shown > 1),
            found.inputs,
        )

    @told
    def show(decoder: str, threshold: float, row: int, rows: list[Any]) -> Any:
        if not rows:
            return packed([gr.skip() for _ in outputs])
        return packed(view.answer(rows[int(row) - 1], chosen(decoder, threshold)))

    def moved(threshold: float, row: int, rows: list[Any]) -> Any:
        return show(OWN, threshold, row, rows)

    inputs = [decoder, threshold, upload, energy]
    predicted = button.click(
        predict, inputs, [result, answers, said, preview, row, rows], api_name="predict_file", **RUNS
    )
    chosen_row = [decoder, threshold, row, rows]
    predicted.success(show, chosen_row, outputs, **QUIET)
    decoder.input(show, chosen_row, outputs, **QUIET)
    row.input(show, chosen_row, outputs, **MOVING)
    threshold.input(moved, chosen_row[1:], outputs, **MOVING)


def chosen(decoder: str, threshold: float) -> str:
    """The decoder that the two fields of the page choose: a threshold if the user sets one, otherwise a name."""
    return f"{threshold:g}" if decoder == OWN else decoder


def packed(found: list[Any]) -> Any:
    """The values in the form that Gradio takes: a list for several components, the value itself for one."""
    return found if len(found) > 1 else found[0]


def told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that a user's mistake is shown on the page.

    The message is escaped, since it may hold text of the data.
    """

    @wraps(function)
    def run(*values: Any, **more: Any) -> Any:
        import gradio as gr

        try:
            return function(*values, **more)
        except Exception as error:
            message = message_of(error)
            if message is None:
                raise
            raise gr.Error(str(escape(one_line(message, MOST_SHOWN))), print_exception=False) from error

    return run


KEPT = 3600  # seconds that uploads and results are kept


def check_extra() -> None:
    """Raises ImportError, a line that says what to install, without Gradio."""
    if importlib.util.find_spec("gradio") is None:
        raise ImportError('the page needs Gradio: pip install "seal_hf[demo]"')


def page_of(view: View) -> gr.Blocks:
    """The page of a view, without a server."""
    import gradio as gr

    name = Path(view.kind.options.model).name
    with gr.Blocks(title=f"{name} · seal_hf", analytics_enabled=False, delete_cache=(KEPT, KEPT)) as page:
        gr.HTML(head(view, name), apply_default_css=False)
        with gr.Row(equal_height=True):
            fields = decision_fields(view)
        with gr.Tabs():
            with gr.Tab(view.one):
                one_tab(view, *fields)
            with gr.Tab(view.many):
                file_tab(view, *fields)
    for block in page.blocks.values():
        take_no_address(block)
    return page


def take_no_address(block: Any) -> None:
    """Refuse addresses where a file is expected: Gradio would download what they name, of any size."""
    import gradio as gr

    take = block.async_move_resource_to_block_cache

    async def take_file(name: Any) -> Any:
        if str(name).lower().startswith(("http:", "https:")):
            raise gr.Error("Upload the file itself. The page downloads nothing.", print_exception=False)
        return await take(name)

    vars(block)["async_move_resource_to_block_cache"] = take_file


def head(view: View, name: str) -> str:
    """The model's name, what it predicts, and what its run came to; what to try next is for whoever trains."""
    energies = ", with energies of its loss-net" if view.has_energies else ""
    lines = markup.fill("<h1>{name}</h1><p>{what}{energies}</p>", name=name, what=view.what, energies=energies)
    verdict = Verdict.saved_in(view.kind.config)
    lasting = [line for line in (verdict.sentences if verdict else ()) if not line.startswith(NEXT)]
    said = Markup().join(markup.fill("<p>{line}</p>", line=line) for line in lasting)
    return str(markup.fill('<div class="seal head">{lines}{said}</div>', lines=lines, said=said))


def decision_fields(view: View) -> tuple[gr.Dropdown, gr.Slider]:
    """The fields of the decoder and the threshold. A change of one updates the other."""
    import gradio as gr

    given = view.kind.options.decoder or view.stored
    is_own, cut = given not in view.decoders, view.threshold_of(given)
    decoder = gr.Dropdown(
        [*view.decoders, *[OWN] * view.cuts],
        value=OWN if is_own else given,
        label="Decoder",
        info=f"stored with the model: {view.stored}",
        filterable=False,
        min_width=240,
    )
    threshold = gr.Slider(
        0,
        1,
        value=0.5 if cut is None else cut,
        step=0.01,
        label="Threshold",
        info="move it to decide by a threshold of your own",
        visible=view.cuts,
        min_width=240,
    )

    def follow(name: str, now: float) -> float:
        cut = None if name == OWN else view.threshold_of(name)
        return now if cut is None else cut

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    decoder.input(follow, [decoder, threshold], threshold, **quiet)
    threshold.input(lambda: OWN, None, decoder, **quiet)
    return decoder, threshold
