"""Masks in `seal-hf predict` and `seal-hf evaluate`; here those of two classes, in `class_masks.py` those of several.

An image is resized for the net if the image processor asks for it; the probabilities are resized back and decided at
the image's own size. Masks are `.png` files, named like the images, or by the row of an `.npz`: of two classes with 0
and 255, of several with class ids and a palette. `--probabilities all`, for several classes `top`, adds
`NAME_probability.png`, grey values 255 p, rounded; `--energy true` adds `energies.json`, the energy of each mask at the
size that the net reads.
"""

from __future__ import annotations

from abc import abstractmethod
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch

from ...core.masks import IGNORE
from ...data.chunks import Chunk, Reader
from ...data.mask_values import MaskValues
from ...data.pictures import pictures_of
from ...reports.common import results_table
from ...saving.batches import image_batches
from ...tasks.labels.metrics import DEFAULT_GRID
from ...tasks.masks.decisions import MaskDecisions
from ...tasks.masks.metrics import mask_ious, right_pixels
from ...tasks.masks.model import SealForSegmentation
from .base import Evaluation, OutputKind, each_chunk, origin_of
from .mask_files import check_mask_output, mask_writer

DIGITS = 6  # decimals of energies


class MaskOutput(OutputKind):
    """Masks of images of any sizes.

    Attributes:
        written_probabilities: the choice of `--probabilities` that is written, beside `none`.
        why: why the other choice is not.
        colours: (256, 3) for palette files; None for files of 0 and 255.
    """

    formats: ClassVar[tuple[str, ...]] = ("", ".png")
    default_probabilities: ClassVar[str] = "none"
    written_probabilities: ClassVar[str]
    why: ClassVar[str]
    colours: ClassVar[np.ndarray | None] = None
    model: SealForSegmentation

    def __init__(self, options: Namespace, like: OutputKind | None = None):
        super().__init__(options, like)
        self.rows_per_chunk = options.batch_size  # images are large
        if self.probabilities not in ("none", self.written_probabilities):
            raise ValueError(
                f"`probabilities` is {self.probabilities!r}, but {self.why}. Use {self.written_probabilities}, or none."
            )

    @property
    def model_class(self) -> type[SealForSegmentation]:
        return SealForSegmentation

    @abstractmethod
    def check_decoder(self) -> None:
        """Raises ValueError for a decoder that the model lacks, or a refit that is impossible."""

    def open_input(self, gold: bool) -> Reader:
        self.check_decoder()
        source = Path(self.options.input)
        values, classes = (
            MaskValues.of_inputs(self.config.get("inputs") or {}),
            len(self.config.get("id2label") or "01"),
        )
        pictures = pictures_of(source, gold, values, max(classes, 2))
        if not gold:
            alone = self.probabilities == "none" and not self.options.energy
            check_mask_output(Path(self.options.output), pictures.names, source, alone)
        return pictures

    # --- predict -----------------------------------------------------------------------------------------------------

    def writer(self, path: Path | None) -> Any:
        assert path is not None, "refused before, as `formats` lacks lines of JSON"
        return mask_writer(path, self.colours)

    def predict(self, chunk: Chunk) -> list[dict[str, Any]]:
        rows = []
        for row, (p, mask) in zip(chunk.rows, self.predicted(chunk.inputs), strict=True):
            row = row | {"mask": mask}
            if self.probabilities != "none":
                row["probability"] = self.of_decided(p)
            rows.append(row)
        if self.options.energy:
            rows = [row | {"energy": energy} for row, energy in zip(rows, self.energies(chunk.inputs), strict=True)]
        return rows

    @abstractmethod
    def of_decided(self, probabilities: np.ndarray) -> np.ndarray:
        """The probabilities that are written, (H, W)."""

    def predicted(self, images: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Probabilities and mask (H, W) of each image, one at a time."""
        decoder, size = self.options.decoder, self.options.batch_size
        for probabilities, mask in self.model.predict_each(images, decoder=decoder, batch_size=size):
            yield probabilities.numpy(), mask.byte().numpy()

    def energies(self, images: list[np.ndarray]) -> list[float]:
        """The energy of each decided mask at the nets' input size, rounded."""
        found: list[float] = []
        net, space = self.model.task_net, self.model.space
        for pixel_values, _ in image_batches(images, self.model.processor, self.options.batch_size):
            pixel_values = pixel_values.to(net.device)
            masks = self.model.predict(decoder=self.options.decoder, pixel_values=pixel_values)[1]
            with torch.no_grad():
                found += self.model.energy(space.gold(masks)[0], pixel_values=pixel_values).tolist()
        return [round(energy, DIGITS) for energy in found]


class BinaryMaskOutput(MaskOutput):
    """Masks of two classes."""

    written_probabilities: ClassVar[str] = "all"
    why: ClassVar[str] = "a pixel of two classes has a single probability"

    def check_decoder(self) -> None:
        if getattr(self.options, "refit", False):
            MaskDecisions.check_name(self.options.decoder)
        else:
            MaskDecisions.from_config(SimpleNamespace(**self.config)).cut(self.options.decoder)

    def of_decided(self, probabilities: np.ndarray) -> np.ndarray:
        return probabilities

    def evaluate(self, reader: Reader) -> Evaluation:
        decisions, options = MaskDecisions.from_config(self.model.config), self.options
        cuts = {name: decisions.cut(name) for name in decisions.names}
        decoder = decisions.decoder if options.decoder is None else options.decoder
        if not options.refit:
            cuts[decoder] = decisions.cut(decoder)
        places = np.unique(DEFAULT_GRID if options.refit else [*cuts.values()])  # (K,) ascending

        def measured(chunk: Chunk) -> list[tuple[np.ndarray, np.ndarray, int]]:
            """Of each image, IoU and right pixels at each cut, (K,) each, and the pixels that count."""
            pairs = zip(self.predicted(chunk.inputs), chunk.gold, strict=True)
            return [
                (mask_ious(p[None], gold[None], places)[:, 0], right_pixels(p, gold, places), (gold != IGNORE).sum())
                for (p, _), gold in pairs
            ]

        ious: list[np.ndarray] = []
        right, counted = np.zeros(len(places)), 0
        for rows in each_chunk(reader, self.rows_per_chunk, measured):
            for iou, pixels, count in rows:
                ious.append(iou)
                right += pixels
                counted += int(count)
        if options.refit:
            decisions = MaskDecisions.of_ious(np.transpose(ious), decoder=options.decoder)
            decoder, cuts = decisions.decoder, {name: decisions.cut(name) for name in decisions.names}
        pairs = np.stack([np.mean(ious, 0), right / max(counted, 1)], 1).tolist()  # (K, 2)
        found = dict(zip(places.tolist(), pairs, strict=True))
        by_decoder = {
            name: {"threshold": cut, **dict(zip(("mean_iou", "pixel_accuracy"), found[cut], strict=True))}
            for name, cut in cuts.items()
        }
        return self._evaluation(len(ious), decoder, by_decoder)

    def _evaluation(self, images: int, decoder: str, by_decoder: dict[str, dict[str, float]]) -> Evaluation:
        options, figures = self.options, dict(by_decoder[decoder])
        results = {
            "model": options.model,
            "input": options.input,
            "rows": images,
            "decoder": decoder,
            "decisions": {
                "origin": origin_of(options),
                "decoder": decoder,
                "threshold": figures.pop("threshold"),
            },
            "figures": figures,
            "decoders": by_decoder,
        }
        rows = [{"decoder": f"{name} *" if name == decoder else name, **by} for name, by in by_decoder.items()]
        said = f"{images} images, decoder {decoder} (*), {origin_of(options)}"
        return Evaluation(results, f"{said}\n\n{results_table(rows)}")
