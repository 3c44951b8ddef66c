"""The page of a view: its head, the decoder and the threshold, and two tabs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...training.verdict import Verdict
from . import markup
from .tabs import file_tab, one_tab
from .views import OWN, View

if TYPE_CHECKING:
    import gradio as gr

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


def head(view: View, name: str) -> markup.Html:
    """The model's name and what it predicts."""
    energies = ", with energies of its loss-net" if view.has_energies else ""
    lines = markup.fill("<h1>{name}</h1><p>{what}{energies}</p>", name=name, what=view.what, energies=energies)
    verdict = Verdict.saved_in(view.kind.config)
    said = markup.joined(markup.fill("<p>{line}</p>", line=line) for line in (verdict.sentences if verdict else ()))
    return markup.fill('<div class="seal head">{lines}{said}</div>', lines=lines, said=said)


def decision_fields(view: View) -> tuple[gr.Dropdown, gr.Slider]:
    """The decoder and the threshold; each follows the other."""
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
