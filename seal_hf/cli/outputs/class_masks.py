"""Masks of several classes in `seal-hf predict` and `seal-hf evaluate`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar, cast

import numpy as np

from ...core.masks import palette
from ...data.chunks import Chunk, Reader
from ...tasks.masks.decisions import ClassMaskDecisions
from ...tasks.masks.metrics import MaskCounts
from ...tasks.masks.report import iou_table
from .base import Evaluation, each_chunk
from .masks import MaskOutput


class ClassMaskOutput(MaskOutput):
    """Masks of several classes: the likeliest class of each pixel, as palette files."""

    written_probabilities: ClassVar[str] = "top"
    why: ClassVar[str] = "a pixel of several classes has more probabilities than a picture can hold"
    colours: ClassVar[np.ndarray | None] = palette()

    def check_decoder(self) -> None:
        decisions = ClassMaskDecisions.from_config(SimpleNamespace(**self.config))
        decisions.named(self.options.decoder)
        if getattr(self.options, "refit", False):
            raise ValueError(
                "`refit` is True, but masks of several classes are decided by the likeliest class: nothing is fitted. "
                "Leave it out."
            )

    def of_decided(self, probabilities: np.ndarray) -> np.ndarray:
        return probabilities.max(0)

    def evaluate(self, reader: Reader) -> Evaluation:
        options, named = self.options, cast(dict[int, str], self.model.config.id2label)
        names = [named[i] for i in sorted(named)]

        def counted(chunk: Chunk) -> tuple[MaskCounts, int]:
            counts = MaskCounts(len(names))
            for (_, mask), gold in zip(self.predicted(chunk.inputs), chunk.gold, strict=True):
                counts.add(mask, gold)
            return counts, len(chunk.rows)

        counts, images = MaskCounts(len(names)), 0
        for found, size in each_chunk(reader, self.rows_per_chunk, counted):
            counts.confusion += found.confusion
            images += size
        figures, iou = counts.figures(), counts.iou()
        by_class = {name: None if np.isnan(value) else float(value) for name, value in zip(names, iou, strict=True)}
        results = {
            "model": options.model,
            "input": options.input,
            "rows": images,
            "decoder": "fixed",
            "figures": figures,
            "iou": by_class,
        }
        said = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        return Evaluation(results, f"{images} images: {said}\n\n{iou_table(names, {'IoU': iou.tolist()})}")
