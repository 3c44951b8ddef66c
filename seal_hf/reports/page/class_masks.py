"""Masks of several classes in the page of a run: IoU by class and image, images with truth, decision and mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ...data.mask_reader import SegmentationSplit
from ...metrics import MaskCounts, class_overlaps
from ...structures.masks import IGNORE, palette
from ..common import place
from .masks import BINS, data_uri, grid, groups, histogram_plot, thinned
from .page import MAX_ROWS, Plot, Section, Table

RIGHT = (255, 255, 255)  # a right pixel among the mistakes; no class has white
LEGEND = (
    "From left to right: image, truth, decision, mistakes. Among the mistakes, right pixels are white, and wrong ones "
    "have the colour of their true class."
)


# --- facts -----------------------------------------------------------------------------------------------------------


def class_mask_facts(
    decided: np.ndarray,
    split: SegmentationSplit,
    label_names: Sequence[str],
    origin: Callable[[int], Mapping[str, Any]] = lambda row: {"row": row},
) -> dict[str, Any]:
    """What the page shows of the decisions on a split, for `_report.json`. It keeps few images, so it stays small.

    Args:
        decided: (N, H, W) class ids.
        split: the N images and masks.
        label_names: of the C classes.
        origin: the number of an image -> where it came from.
    """
    both, either = class_overlaps(decided, split.masks, len(label_names))
    known = either > 0
    iou = np.where(known, both / np.maximum(either, 1), 0).sum(1) / np.maximum(known.sum(1), 1)
    iou[~known.any(1)] = 1.0  # no pixel counts
    counts = split.masks != IGNORE
    size, wrong = counts.sum((1, 2)), (counts & (decided != split.masks)).sum((1, 2))
    order = np.lexsort((-wrong, iou))  # worst first; of equals, the one with most wrong pixels
    total = MaskCounts(len(label_names))
    total.add(decided, split.masks)
    image = [
        {"origin": origin(int(row)), "iou": float(iou[row]), "size": int(size[row]), "wrong": int(wrong[row])}
        for row in order[:MAX_ROWS]
    ]
    return {
        "names": list(label_names),
        **total.figures(),
        "confusion": total.confusion.tolist(),
        "histogram": np.histogram(iou, bins=BINS, range=(0, 1))[0].tolist(),
        "images": image,
        "left_out": max(len(order) - MAX_ROWS, 0),
        "shown": {
            name: [
                {"origin": origin(int(row)), "iou": float(iou[row])}
                | class_pictures(split.images[row], split.masks[row], decided[row])
                for row in rows
            ]
            for name, rows in groups(order).items()
        },
    }


def class_pictures(image: np.ndarray, gold: np.ndarray, decided: np.ndarray) -> dict[str, str]:
    """`image`, `truth`, `decision` and `mistakes` as small pictures, see [`data_uri`].

    Args:
        image: (H, W, 3) uint8.
        gold, decided: (H, W) class ids; gold is 255 where a pixel does not count.
    """
    image, gold, decided = (thinned(array) for array in (image, gold, decided))
    colours, counts = palette(), gold != IGNORE
    decided = np.where(counts, decided, IGNORE)
    mistakes = np.where((counts & (gold == decided))[..., None], np.array(RIGHT, dtype=np.uint8), colours[gold])
    layers = {"image": image, "truth": colours[gold], "decision": colours[decided], "mistakes": mistakes}
    return {name: data_uri(layer) for name, layer in layers.items()}


# --- sections --------------------------------------------------------------------------------------------------------


def class_mask_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The sections of [`class_mask_facts`] with `split`, its name for readers."""
    return [_images(facts), _classes(facts), _by_image(facts)]


def _swatch(name: str, colour: Sequence[int]) -> Markup:
    """A name beside its colour."""
    return Markup('<span class="swatch" style="--of: rgb{}"></span> {}').format(tuple(map(int, colour)), name)


def _images(facts: Mapping[str, Any]) -> Section:
    colours = palette()
    named = [*((name, colours[i]) for i, name in enumerate(facts["names"])), ("does not count", colours[IGNORE])]
    parts: list[Any] = [LEGEND, Markup(" &nbsp; ").join(_swatch(*each) for each in named)]
    for name, found in facts["shown"].items():
        title = Markup("<strong>{}</strong>").format(f"{name.capitalize()}, by IoU")
        parts += [title, Plot(grid(found, ("image", "truth", "decision", "mistakes")), "", wide=True)]
    return Section(f"Images, {facts['split']}", parts)


def _classes(facts: Mapping[str, Any]) -> Section:
    """Figures of each class, from the confusion matrix."""
    confusion, colours = np.array(facts["confusion"]), palette()
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(facts["names"]):
        right, gold, decided = (int(n) for n in (confusion[i, i], confusion[i].sum(), confusion[:, i].sum()))
        missed = np.where(np.arange(len(confusion)) == i, 0, confusion[i])
        cells: dict[str, Any] = {"class": name, "colour": _swatch("", colours[i])}
        cells["IoU"] = right / (gold + decided - right) if gold + decided else None
        cells |= {"precision": right / decided if decided else None, "recall": right / gold if gold else None}
        cells |= {"true pixels": gold, "decided pixels": decided}
        most = int(missed.argmax())
        cells["most often taken for"] = facts["names"][most] if missed[most] else ""
        rows.append(cells | {"its share": missed[most] / gold if gold else None})
    text = (
        f"The mean IoU over classes is {facts['mean_iou']:.4f}, the pixel accuracy {facts['pixel_accuracy']:.4f}. A "
        "pixel gets its likeliest class. IoU is that of a class over all images."
    )
    caption = (
        "All classes. Click a column to sort. The share is that of the class's true pixels which another class takes."
    )
    return Section(f"IoU by class, {facts['split']}", [text, Table(rows, caption)])


def _by_image(facts: Mapping[str, Any]) -> Section:
    edges = [(i / BINS, (i + 1) / BINS) for i in range(BINS)]
    bins = [
        {"IoU from": low, "to": high, "images": n} for (low, high), n in zip(edges, facts["histogram"], strict=True)
    ]
    rows = [
        {"image": place(image["origin"]), "IoU": image["iou"], "wrong pixels": image["wrong"]}
        | {"wrong, share": image["wrong"] / max(image["size"], 1)}
        for image in facts["images"]
    ]
    parts: list[Any] = [
        "The IoU of an image is the mean over the classes that are true or decided in it.",
        Plot(
            histogram_plot(facts["histogram"]),
            "Images by their IoU. A class that is decided in a few pixels of an image, and is not there, counts 0.",
            Table(bins),
        ),
        Table(rows, "All images, the worst first. Click a column to sort.", more=facts["left_out"]),
    ]
    return Section(f"IoU by image, {facts['split']}", parts)
