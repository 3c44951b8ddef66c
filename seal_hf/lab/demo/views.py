"""What the page shows of one kind of output: what is typed in, what is answered, what a row of a file becomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from ...cli.output_kind import OutputKind
from ...core.decisions import Decisions, as_threshold
from ...data.writers import json_text
from . import markup

if TYPE_CHECKING:
    from gradio.components import Component

OWN = "own threshold"  # the entry of the page's list of decoders that reads the slider
ALTERNATIVES = 5  # structures beside the decided one
FIRST, LAST = 5, 3  # columns of a row that the page shows
IMAGES = [[str(file)] for file in sorted(Path(__file__).with_name("examples").glob("*.png"))]  # the embedded digits


class View(ABC):
    """One kind of output on the page.

    Args:
        kind: of the model, its weights loaded.

    Raises:
        OSError, ValueError: there is nothing beside the task-net that reads raw inputs.

    Attributes:
        what: describes the output, for the page's head.
        one, many: titles of the two tabs.
        unit: what a file has several of.
        files: suffixes of the files that the second tab takes.
        several: True if it takes several files at once.
        cuts: True if a threshold decides, so that it can be moved.
        shown: number of rows of a file that the page shows.
        decided_by: class of its decisions.
    """

    what: ClassVar[str]
    one: ClassVar[str]
    many: ClassVar[str] = "A file"
    unit: ClassVar[str] = "row"
    files: Sequence[str]
    several: ClassVar[bool] = False
    cuts: ClassVar[bool] = True
    shown: ClassVar[int] = 100
    decided_by: type[Decisions]

    def __init__(self, kind: OutputKind):
        self.kind = kind
        if self.reads_raw:
            _ = kind.model.processor  # if it is missing, the error comes now

    @property
    def reads_raw(self) -> bool:
        """True if the task-net has a tokenizer, a vocabulary or an image processor."""
        return True

    @property
    def has_energies(self) -> bool:
        """True if there is a loss-net."""
        return self.kind.options.energy

    def under(self, decoder: str | None, **options: Any) -> Any:
        """The kind of output under another decoder or other options; the nets are shared."""
        changed = {**vars(self.kind.options), "decoder": decoder, **options}
        return type(self.kind)(Namespace(**changed), self.kind)

    @property
    def decisions(self) -> Any:
        """The decisions that were saved with the task-net, of the class `decided_by`."""
        return self.decided_by.from_config(SimpleNamespace(**self.kind.config))

    @property
    def decoders(self) -> Sequence[str]:
        """The decoders that the task-net has, simplest first."""
        return self.decisions.names

    @property
    def stored(self) -> str:
        """The decoder that was saved with the task-net."""
        return self.decisions.decoder

    def threshold_of(self, decoder: str) -> float | None:
        """The one threshold by which a decoder cuts, if it has one."""
        return as_threshold(decoder)

    @abstractmethod
    def inputs(self) -> list[Component]:
        """Fields to type in, made within a page."""

    @property
    def examples(self) -> Sequence[Sequence[Any]]:
        """Values of the fields that a click fills in. No row of the data is among them: the page may be shown to
        others."""
        return ()

    @abstractmethod
    def outputs(self) -> list[Component]:
        """Where the answer appears, made within a page."""

    @abstractmethod
    def read(self, *values: Any) -> Any:
        """An input of the task-net, from the values of the fields.

        Raises:
            ValueError: tells what is missing or wrong.
        """

    @abstractmethod
    def answer(self, given: Any, decoder: str) -> list[Any]:
        """The values of the outputs, for an input of `read` or of a row of a file."""

    def kept(self, inputs: Sequence[Any]) -> list[Any]:
        """What the task-net read for some rows of a file, in a form that outlives the file."""
        return list(inputs)

    # --- files -------------------------------------------------------------------------------------------------------

    def output_suffix(self, path: Path) -> str:
        """The format in which the predictions of a file are written; empty for a folder."""
        return path.suffix.lower() if path.suffix.lower() in self.kind.formats else ".csv"

    def preview(self) -> Component:
        """Where the first rows of a file appear, made within a page."""
        import gradio as gr

        return gr.HTML(apply_default_css=False)

    def previewed(self, rows: Sequence[dict[str, Any]], inputs: Sequence[Any]) -> Any:
        """The value of the preview, for rows as they were written and what the task-net read for them."""
        shown = [{name: cell(value) for name, value in self.columns(row).items()} for row in rows]
        numbered = [[str(i), *row.values()] for i, row in enumerate(shown, start=1)]
        return markup.answer(markup.table(["", *(shown[0] if shown else ())], numbered))

    def columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """What the preview shows of a row: the first columns, and our own, which stand last."""
        names = list(row)
        left_out = names[FIRST:-LAST] if len(names) > FIRST + LAST else []
        return {name: value for name, value in row.items() if name not in left_out}


def image_field() -> Component:
    """A field that takes an image, made within a page."""
    import gradio as gr

    field = gr.Image(label="Image", type="filepath", sources=["upload", "clipboard"], height=320, elem_classes="given")
    vars(field)["preprocess"] = lambda given: given and given.path  # Gradio would decode it before it is checked
    return field


def cell(value: Any) -> str:
    """A value as the text of a cell."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(item)}" for name, item in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else value if isinstance(value, str) else json_text(value)
