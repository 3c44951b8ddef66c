"""Masks in `seal-hf predict` and `seal-hf evaluate`, of two classes and of several.

An image is resized for the net if the image processor asks for it; the probabilities are resized back and decided at
the image's own size. Masks are `.png` files, named like the images, or by the row of an `.npz`. They hold 0 and 255 for
two classes, and class ids with a palette for several. `--probabilities all`, for several classes `top`, adds
`NAME_probability.png`, whose grey values are 255 p, rounded. `--energy true` adds `energies.json`, the energy of each
mask at the size that the net reads.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from abc import abstractmethod
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, ClassVar, cast

import numpy as np
import torch

from ...cli.output_kind import Evaluation, OutputKind, each_chunk, origin_of
from ...core.masks import IGNORE, palette
from ...data.common import DataError
from ...data.mask_values import MaskValues
from ...data.pictures import pictures_of
from ...data.row_tables import Chunk, Reader
from ...data.writers import Rows, Writer
from ...saving.batches import image_batches
from ...utils.files import new_name, whole_file
from ...utils.messages import results_table
from ..labels.metrics import DEFAULT_GRID
from .decisions import ClassMaskDecisions, MaskDecisions
from .metrics import MaskCounts, mask_ious, right_pixels
from .model import SealForSegmentation
from .report import iou_table

DIGITS = 6  # decimals of energies
PROBABILITY, ENERGIES = "_probability", "energies.json"


class MaskOutput(OutputKind):
    """Masks of images of any sizes.

    Attributes:
        written_probabilities: the choice of `--probabilities` that is written, beside `none`.
        why: why the other choice is not.
        colours: (256, 3) for palette files; None for files of 0 and 255.
    """

    formats: ClassVar[tuple[str, ...]] = ("", ".png")
    default_probabilities: ClassVar[str] = "none"
    decided_unit: ClassVar[str] = "pixels"
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
        values, named = MaskValues.of_inputs(self.config.get("inputs") or {}), self.config.get("id2label") or {}
        names = [named[key] for key in sorted(named, key=int)]
        pictures = pictures_of(source, gold, values, max(len(names), 2), names, self.options.split)
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

    def decided_values(self, chunk: Chunk) -> list[Any]:
        return [mask.ravel() for _, mask in self.predicted(chunk.inputs)]

    @abstractmethod
    def of_decided(self, probabilities: np.ndarray) -> np.ndarray:
        """The probabilities (H, W) that are written."""

    def predicted(self, images: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields probabilities and mask (H, W) of each image."""
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


# --- the files -------------------------------------------------------------------------------------------------------


def check_mask_output(output: Path, names: Sequence[str], source: Path, alone: bool) -> None:
    """Raise DataError if masks cannot be written, before anything is predicted.

    Args:
        output: a folder, or a `.png` file for a single image.
        names: of the images.
        source: file or folder of the images.
        alone: True if only masks are written, without probabilities and energies.
    """
    if importlib.util.find_spec("PIL") is None:
        raise DataError("Writing masks as .png files needs pillow: pip install 'seal_hf[vision]'.")
    if output.suffix.lower() == ".png" and (len(names) > 1 or not alone):
        why = f"of {len(names)} images" if len(names) > 1 else "with probabilities or energies"
        raise DataError(f"`output` is {str(output)!r}, but masks {why} are several files. Give a folder.")
    read = [source.resolve(), *((source / name).resolve() for name in ("images", "masks"))]
    if output.resolve() in (*read, *read[0].parents):
        raise DataError(f"`output` is {str(output)!r}, but it holds the images of {source}. Give another folder.")
    if output.exists() and output.is_dir() == (output.suffix.lower() == ".png"):
        raise DataError(f"`output` is {str(output)!r}, a {'folder' if output.is_dir() else 'file'}. Give another name.")
    files = sorted(output.iterdir()) if output.is_dir() else []
    others = [file.name for file in files if file.suffix.lower() != ".png" and file.name != ENERGIES]
    if others:
        raise DataError(
            f"`output` is {str(output)!r}, a folder that would be replaced as a whole, but it holds "
            f"{', '.join(others[:3])}. Give another name."
        )
    known = set(names)
    clash = next((name for name in names if not alone and f"{name}{PROBABILITY}" in known), None)
    if clash is not None:
        raise DataError(
            f"{source}: the probabilities of {clash} and the mask of {clash}{PROBABILITY} would be the same file, "
            f"{clash}{PROBABILITY}.png. Rename one of the images."
        )


class MaskWriter(Writer):
    """A `.png` file per row: `mask` (H, W) of 0 and 1 as 0 and 255, or with `colours` (256, 3) class ids in a palette;
    beside it, `probability` (H, W) in [0, 1], if given, as grey values. All `energy` values go to `energies.json`, by
    name."""

    def __init__(self, place: Path, file: Path | None = None, colours: np.ndarray | None = None):
        self.place, self.file, self.colours = place, file, colours
        self.energies: IO[str] | None = None

    def write(self, rows: Rows) -> None:
        for row in rows:
            mask = row["mask"] if self.colours is not None else 255 * row["mask"]
            self._save(mask, self.file or self.place / f"{row['name']}.png", self.colours)
            if "probability" in row:
                grey = (row["probability"] * 255.0).round().astype(np.uint8)
                self._save(grey, self.place / f"{row['name']}{PROBABILITY}.png")
            if "energy" in row:
                self._add(row["name"], row["energy"])

    def add(self, part: Path) -> None:
        if self.file is not None:
            _link(part, self.file)
            return
        for file in sorted(part.iterdir()):
            if file.name != ENERGIES:
                _link(file, self.place / file.name)
                continue
            for name, energy in json.loads(file.read_text(encoding="utf-8")).items():
                self._add(name, energy)

    def close(self) -> None:
        if self.energies is not None:
            self.energies.write("\n}\n")
            self.energies.close()

    def _save(self, values: np.ndarray, file: Path, colours: np.ndarray | None = None) -> None:
        from PIL import Image  # pillow is optional

        image = Image.fromarray(values)
        if colours is not None:
            image.putpalette(colours.tobytes())
        image.save(file, format="PNG")

    def _add(self, name: str, energy: float) -> None:
        first = self.energies is None
        if self.energies is None:
            self.energies = open(self.place / ENERGIES, "w", encoding="utf-8")
        self.energies.write(("{\n" if first else ",\n") + f"{json.dumps(name, ensure_ascii=False)}: {energy!r}")


def _link(file: Path, other: Path) -> None:
    """Give a file another name too, or copy it where the file system has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)


@contextmanager
def mask_writer(output: Path, colours: np.ndarray | None = None) -> Iterator[MaskWriter]:
    """A writer for a `.png` file or a folder, which appears, and replaces an earlier one, when the block ends.

    Args:
        colours: as for [`MaskWriter`].
    """
    if output.suffix.lower() == ".png":
        with whole_file(output) as unfinished:
            yield MaskWriter(unfinished.parent, unfinished, colours)
        return
    unfinished, replaced = (new_name(output, ending) for ending in ("unfinished", "replaced"))
    unfinished.mkdir(parents=True)
    writer = MaskWriter(unfinished, colours=colours)
    try:
        try:
            yield writer
        finally:
            writer.close()
        if output.is_dir():
            output.rename(replaced)
        unfinished.rename(output)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
