"""Label sets on the page, of texts, features and images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.arrays import label_log_probabilities, likeliest
from ...data.image_files import IMAGE_SUFFIXES, as_rgb, pixels
from ...lab.demo import markup
from ...lab.demo.files import image_of
from ...lab.demo.views import ALTERNATIVES, IMAGES, View, image_field
from .cards import EXAMPLES
from .decisions.label_decisions import NEVER_EMPTY, LabelDecisions
from .files import LabelOutput

if TYPE_CHECKING:
    from gradio.components import Component

MOST_BARS = 12  # labels that are not decided need not all be shown
CAPTION = (
    "The decided set and the likeliest others. Energies are those of the loss-net, lower is better; probabilities are "
    "those of the task-net, as if labels were independent."
)


class LabelView(View):
    """Probabilities as bars, the decided labels, and the energies of the decided set and its likeliest alternatives."""

    what: ClassVar[str] = "label sets"
    decided_by = LabelDecisions
    kind: LabelOutput

    @property
    def of_features(self) -> bool:
        """True if the task-net reads features."""
        return "input_size" in self.kind.config

    @property
    def reads_raw(self) -> bool:
        return not self.of_features

    @property
    def one(self) -> str:  # type: ignore[override]
        return "One row" if self.of_features else "One image" if self.several else "One text"

    @property
    def several(self) -> bool:  # type: ignore[override]
        """True if the task-net reads images."""
        return self.kind.reads_images

    @property
    def many(self) -> str:  # type: ignore[override]
        return "Several images" if self.several else "A file"

    @property
    def shown(self) -> int:  # type: ignore[override]
        return 24 if self.several else 100

    @property
    def files(self) -> Sequence[str]:  # type: ignore[override]
        if self.several:
            return IMAGE_SUFFIXES
        return (".csv", ".tsv", ".jsonl", ".parquet", *[".arff"] * self.of_features)

    def threshold_of(self, decoder: str) -> float | None:
        plain = decoder.removesuffix(NEVER_EMPTY)
        return {"fixed": 0.5, "threshold": self.decisions.threshold}.get(plain, super().threshold_of(decoder))

    # --- one row -----------------------------------------------------------------------------------------------------

    def inputs(self) -> list[Component]:
        import gradio as gr

        if self.several:
            return [image_field()]
        if self.of_features:
            size = self.kind.config["input_size"]
            return [gr.Textbox(label="Features", lines=6, placeholder=f"{size} numbers, between blanks or commas")]
        trained = self.kind.config.get("inputs") or {}
        names = ["First text", "Second text"] if "pairs" in trained else ["Text"]
        lines = 3 if len(names) > 1 else 5
        return [gr.Textbox(label=name, lines=lines, placeholder="Type or paste a text") for name in names]

    @property
    def examples(self) -> Sequence[Sequence[str]]:
        if self.several:
            return IMAGES
        if self.of_features:
            encoder: Any = self.kind.model.task_net.encoder
            rows = encoder.shift, encoder.shift + 1 / encoder.scale  # the training rows' mean, and a deviation above
            return [[", ".join(f"{value:.4g}" for value in row.tolist())] for row in rows]
        pairs = "pairs" in (self.kind.config.get("inputs") or {})
        return [texts if pairs else texts[:1] for texts in EXAMPLES]

    def outputs(self) -> list[Component]:
        import gradio as gr

        return [gr.HTML(apply_default_css=False)]

    def read(self, *values: Any) -> Any:
        if self.of_features:
            return self._numbers(values[0] or "")
        if self.several:
            return image_of(values[0])
        if not all(value and value.strip() for value in values):
            raise ValueError("There is no text. Type or paste one." if len(values) == 1 else "Give both texts.")
        return tuple(values) if len(values) > 1 else values[0]

    def _numbers(self, text: str) -> np.ndarray:
        size, words = self.kind.config["input_size"], re.split(r"[\s,;]+", text.strip(" \t\n,;[]"))
        try:
            found = np.array([float(word) for word in words if word], dtype=np.float32)
        except ValueError as error:
            raise ValueError(f"Features are numbers; {error}.") from error
        if found.shape != (size,) or not np.isfinite(found).all():
            raise ValueError(f"The model reads {size} finite numbers; found {len(found)}. Or give a file of rows.")
        return found

    def kept(self, inputs: Sequence[Any]) -> list[Any]:
        return [as_rgb(pixels(Path(file)), file) for file in inputs] if self.several else list(inputs)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answer(self, given: Any, decoder: str) -> list[Any]:
        asked = self.under(decoder)
        p, chosen = self.decide(given, asked)
        names = [self.kind.labels[i] for i in np.argsort(-p, kind="stable") if chosen[i]]
        parts = [
            markup.chips("Decided", names, "no label"),
            markup.bars("Probabilities", self.bars(p, chosen, decoder)),
        ]
        left_out = len(p) - len(self._shown(p, chosen))
        if left_out:
            parts.append(markup.note(f"{left_out} labels with lower probabilities are not shown."))
        if self.has_energies:
            parts.append(markup.energies(self.alternatives(given, asked, p, chosen), "probability", CAPTION))
        return [markup.answer(*parts)]

    def decide(self, given: Any, asked: LabelOutput) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (L,) and the decided labels (L,) bool of one input."""
        probabilities, decided = asked.decided(self._repeated(given, 1), asked.options.decoder)
        return probabilities[0].double().numpy(), decided[0].numpy().astype(bool)

    def bars(self, p: np.ndarray, chosen: np.ndarray, decoder: str) -> list[markup.Bar]:
        """The likeliest labels and all decided ones, with the threshold of each if the decoder has thresholds."""
        cut, marks = self.threshold_of(decoder), self.decisions.thresholds
        if decoder.removesuffix(NEVER_EMPTY) != "thresholds" or marks is None:
            marks = None if cut is None else [cut] * len(p)
        return [
            markup.Bar(self.kind.labels[i], float(p[i]), bool(chosen[i]), None if marks is None else marks[i])
            for i in self._shown(p, chosen)
        ]

    def _shown(self, p: np.ndarray, chosen: np.ndarray) -> list[int]:
        order = np.argsort(-p, kind="stable")
        return [int(i) for rank, i in enumerate(order) if rank < MOST_BARS or chosen[i]]

    def alternatives(
        self, given: Any, asked: LabelOutput, p: np.ndarray, chosen: np.ndarray
    ) -> list[markup.Alternative]:
        """The decided set, then the most probable others."""
        logs = label_log_probabilities(p)
        sets = likeliest(logs, ALTERNATIVES + 1)[0].astype(bool)
        sets = np.concatenate([chosen[None], sets[(sets != chosen).any(1)][:ALTERNATIVES]])
        shares = np.exp(np.where(sets, logs[:, 1], logs[:, 0]).sum(1))
        found = asked.energies(self._repeated(given, len(sets)), sets)
        names = [", ".join(self.kind.labels[i] for i in np.flatnonzero(row)) or "no label" for row in sets]
        rows = zip(names, shares.tolist(), found, strict=True)
        return [markup.Alternative(*row, decided=i == 0) for i, row in enumerate(rows)]

    def _repeated(self, given: Any, count: int) -> Any:
        return np.stack([given] * count) if self.of_features else [given] * count
