"""Masks of two classes in the page of a run: IoU by image and threshold, images with truth, decision, difference."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ...core.masks import IGNORE, palette
from ...data.masks import SegmentationSplit
from ...reports.common import place
from ...reports.page import MAX_ROWS, Plot, Section, Table
from ...reports.plots import colour, lines, points, svg
from ..labels.metrics import DEFAULT_GRID
from .metrics import MaskCounts, class_overlaps, mask_iou, mask_ious

GROUP = 8  # images that are shown of the worst, of the middle and of the best
MOST_PIXELS = 128  # side of a shown image
BINS = 20
BACKGROUND, FOREGROUND, UNCOUNTED = (28, 32, 38), (236, 238, 241), (120, 126, 134)
FALSE_POSITIVE, FALSE_NEGATIVE = (230, 159, 0), (86, 180, 233)  # orange and sky blue: clear to the colour-blind too
LEGEND = Markup(
    "From left to right: image, truth, decision, difference. In the difference, white is right foreground, "
    '<span class="swatch" style="--of: rgb{}"></span> orange is decided but not true (false positive), '
    '<span class="swatch" style="--of: rgb{}"></span> blue is true but not decided (false negative), and grey does '
    "not count."
).format(FALSE_POSITIVE, FALSE_NEGATIVE)


# --- facts -----------------------------------------------------------------------------------------------------------


def mask_facts(
    probabilities: np.ndarray,
    split: SegmentationSplit,
    threshold: float,
    origin: Callable[[int], Mapping[str, Any]] = lambda row: {"row": row},
) -> dict[str, Any]:
    """What the page shows of the decisions on a split, for `_report.json`. It keeps few images, so it stays small.

    Args:
        probabilities: (N, H, W) of foreground.
        split: the N images and masks.
        threshold: of the decisions.
        origin: the number of an image -> where it came from.
    """
    counts, gold = split.masks != IGNORE, split.masks == 1
    decided = (probabilities.astype(np.float64) >= threshold) & counts
    iou = mask_iou(probabilities, split.masks, threshold)
    pixels = {
        "gold": gold.sum((1, 2)),
        "decided": decided.sum((1, 2)),
        "false positive": (decided & ~gold).sum((1, 2)),
        "false negative": (gold & ~decided).sum((1, 2)),
    }
    wrong = pixels["false positive"] + pixels["false negative"]
    order = np.lexsort((pixels["gold"], -wrong, iou))  # worst first; of equals, the one with most wrong pixels
    return {
        "threshold": threshold,
        "mean_iou": float(iou.mean()),
        "pixels": {"counted": int(counts.sum()), **{name: int(found.sum()) for name, found in pixels.items()}},
    } | _image_facts(
        order,
        iou,
        origin,
        {"size": counts.sum((1, 2)), **pixels},
        lambda row: pictures(split.images[row], gold[row], decided[row], counts[row]),
    )


def _image_facts(
    order: np.ndarray,
    iou: np.ndarray,
    origin: Callable[[int], Mapping[str, Any]],
    numbers: Mapping[str, np.ndarray],
    drawn: Callable[[int], dict[str, str]],
) -> dict[str, Any]:
    """What the page shows of each image.

    Args:
        order: (N,) numbers of the images, the worst first.
        iou: (N,).
        numbers: name -> (N,) whole numbers.
        drawn: the number of an image -> its pictures.
    """

    def known(row: int) -> dict[str, Any]:
        return {"origin": origin(row), "iou": float(iou[row])}

    rows = order.tolist()
    return {
        "histogram": np.histogram(iou, bins=BINS, range=(0, 1))[0].tolist(),
        "images": [known(row) | {name: int(of[row]) for name, of in numbers.items()} for row in rows[:MAX_ROWS]],
        "left_out": max(len(rows) - MAX_ROWS, 0),
        "shown": {name: [known(row) | drawn(row) for row in some.tolist()] for name, some in groups(order).items()},
    }


def groups(order: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers of the images that are shown, by the name of their group. `order` has the numbers of all images, the
    worst first."""
    if len(order) <= 3 * GROUP:
        return {"all, the worst first": order}
    begin = (len(order) - GROUP) // 2
    return {"worst": order[:GROUP], "middle": order[begin : begin + GROUP], "best": order[-GROUP:][::-1]}


def threshold_facts(probabilities: np.ndarray, masks: np.ndarray) -> dict[str, list[float]]:
    """The mean IoU of validation images at each threshold that was tried."""
    found = mask_ious(probabilities, masks).mean(1)
    return {"thresholds": DEFAULT_GRID.tolist(), "mean_iou": found.tolist()}


def pictures(image: np.ndarray, gold: np.ndarray, decided: np.ndarray, counts: np.ndarray) -> dict[str, str]:
    """The small pictures `image`, `truth`, `decision` and `difference`, see [`data_uri`].

    Args:
        image: (H, W, 3) uint8.
        gold, decided, counts: (H, W) bool; the first two are False where a pixel does not count.
    """
    image, gold, decided, counts = (thinned(array) for array in (image, gold, decided, counts))
    layers = {"truth": [(gold, FOREGROUND)], "decision": [(decided, FOREGROUND)]}
    layers["difference"] = [
        (gold & decided, FOREGROUND),
        (decided & ~gold, FALSE_POSITIVE),
        (gold & ~decided, FALSE_NEGATIVE),
    ]
    found = {"image": data_uri(image)}
    for name, parts in layers.items():
        drawn = np.where(counts[..., None], BACKGROUND, UNCOUNTED).astype(np.uint8)
        for where, of in parts:
            drawn[where] = of
        found[name] = data_uri(drawn)
    return found


def thinned(array: np.ndarray) -> np.ndarray:
    """Rows and columns of (H, W, ...) at equal steps, so that no side is longer than `MOST_PIXELS`."""
    step = -(-max(array.shape[:2]) // MOST_PIXELS)
    return array[step // 2 :: step, step // 2 :: step]


def data_uri(pixels: np.ndarray) -> str:
    """Pixels (H, W, 3), uint8, as a PNG in a data URI."""
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]  # PNG's filter 1: to the pixel at the left; it compresses better
    rows = np.insert(differences.reshape(len(pixels), -1), 0, 1, axis=1)
    chunks = {
        b"IHDR": struct.pack(">2I5B", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0),  # 8 bits, RGB
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    file = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks.items():
        file += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")


# --- sections --------------------------------------------------------------------------------------------------------


def mask_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The sections for [`mask_facts`], to which `split`, its name for readers, and `curve`, the [`threshold_facts`],
    were added."""
    return [images_section(facts, [LEGEND], ("image", "truth", "decision", "difference")), iou_section(facts)]


def iou_section(facts: Mapping[str, Any]) -> Section:
    """The section on IoU by image, by size of the object and by threshold."""
    pixels, images, curve = facts["pixels"], facts["images"], facts["curve"]
    too_many, too_few = pixels["false positive"], pixels["false negative"]
    text = (
        f"The mean IoU is {facts['mean_iou']:.4f} at the threshold {facts['threshold']:g}. Of {pixels['counted']:,} "
        f"pixels, {pixels['gold']:,} are foreground and {pixels['decided']:,} are decided as foreground: "
        f"{too_many:,} wrongly, and {too_few:,} of the foreground are missing."
    )
    caption = (
        "Images by their IoU. A peak at 0 is objects that are missed as a whole; a broad hill is blurred outlines."
    )
    parts: list[Any] = [text, histogram(facts["histogram"], caption)]
    with_object = [image for image in images if image["gold"]]
    if with_object and not facts["left_out"]:
        share = [image["gold"] / image["size"] for image in with_object]
        is_wide = max(share) > 10 * min(share)
        parts.append(
            Plot(
                points(
                    share, [image["iou"] for image in with_object], "share of the image", "IoU", logarithmic_x=is_wide
                ),
                "IoU by the size of the object, which is a share of the image. The numbers are in the table of images. "
                "Small objects lose most IoU by a wrong outline.",
            )
        )
    at = {"validation": (curve["thresholds"], curve["mean_iou"])}
    parts.append(
        Plot(
            lines(at, "threshold", "mean IoU", marked={"chosen": facts["threshold"]}),
            "Mean IoU of validation at each threshold. A flat top: the choice hardly matters. A top far from 0.5: the "
            "probabilities are too high or too low.",
            Table([{"threshold": t, "mean IoU": iou} for t, iou in zip(*at["validation"], strict=True)]),
        )
    )
    rows = [
        {
            "image": place(image["origin"]),
            "IoU": image["iou"],
            "object, share of the image": image["gold"] / max(image["size"], 1),
        }
        | {"decided, share": image["decided"] / max(image["size"], 1)}
        | {f"{name} pixels": image[name] for name in ("false positive", "false negative")}
        for image in images
    ]
    parts.append(Table(rows, "All images, the worst first. Click a column to sort.", more=facts["left_out"]))
    return Section(f"IoU by image, {facts['split']}", parts)


def histogram(counts: Sequence[int], caption: str) -> Plot:
    """A plot with bars over bins of equal width from 0 to 1."""

    def draw(axes: Any) -> None:
        axes.bar(np.arange(len(counts)) / len(counts), counts, width=0.9 / len(counts), align="edge", color=colour(0))
        axes.set(xlabel="IoU", ylabel="images", xlim=(0, 1))
        axes.grid(axis="x", visible=False)
        axes.yaxis.get_major_locator().set_params(integer=True)

    bins = [{"IoU from": i / BINS, "to": (i + 1) / BINS, "images": number} for i, number in enumerate(counts)]
    return Plot(svg(draw), caption, Table(bins))


def images_section(facts: Mapping[str, Any], legend: Sequence[Any], names: Sequence[str]) -> Section:
    """The section on images, each with its pictures of these names, such as truth and decision."""
    parts = list(legend)
    for name, found in facts["shown"].items():
        title = Markup("<strong>{}</strong>").format(f"{name.capitalize()}, by IoU")
        parts += [title, Plot(grid(found, names), "", wide=True)]
    return Section(f"Images, {facts['split']}", parts)


def grid(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Markup:
    """A grid of images, each with its pictures of these names."""
    picture = Markup('<img src="{}" alt="{}">')
    one = Markup('<div class="masks">{}<p>{} · IoU {:.3f}</p></div>')
    shown = [
        one.format(
            Markup("").join(picture.format(image[name], name) for name in names), place(image["origin"]), image["iou"]
        )
        for image in found
    ]
    return Markup('<div class="grid">{}</div>').format(Markup("\n").join(shown))


# Masks of several classes in the page of a run: IoU by class and image, images with truth, decision and mistakes.

RIGHT = (255, 255, 255)  # a right pixel among the mistakes; no class has white
CLASS_LEGEND = (
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
    return {
        "names": list(label_names),
        **total.figures(),
        "confusion": total.confusion.tolist(),
    } | _image_facts(
        order,
        iou,
        origin,
        {"size": size, "wrong": wrong},
        lambda row: class_pictures(split.images[row], split.masks[row], decided[row]),
    )


def class_pictures(image: np.ndarray, gold: np.ndarray, decided: np.ndarray) -> dict[str, str]:
    """The small pictures `image`, `truth`, `decision` and `mistakes`, see [`data_uri`].

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
    """The sections for [`class_mask_facts`], to which `split`, its name for readers, was added."""
    colours = palette()
    named = [*((name, colours[i]) for i, name in enumerate(facts["names"])), ("does not count", colours[IGNORE])]
    legend = [CLASS_LEGEND, Markup(" &nbsp; ").join(_swatch(*each) for each in named)]
    images = images_section(facts, legend, ("image", "truth", "decision", "mistakes"))
    return [images, _classes(facts), _by_image(facts)]


def _swatch(name: str, colour: Sequence[int]) -> Markup:
    """A name beside its colour."""
    return Markup('<span class="swatch" style="--of: rgb{}"></span> {}').format(tuple(map(int, colour)), name)


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
    caption = "Images by their IoU. A class that is decided in a few pixels of an image, and is not there, counts 0."
    rows = [
        {"image": place(image["origin"]), "IoU": image["iou"], "wrong pixels": image["wrong"]}
        | {"wrong, share": image["wrong"] / max(image["size"], 1)}
        for image in facts["images"]
    ]
    parts: list[Any] = [
        "The IoU of an image is the mean over the classes that are true or decided in it.",
        histogram(facts["histogram"], caption),
        Table(rows, "All images, the worst first. Click a column to sort.", more=facts["left_out"]),
    ]
    return Section(f"IoU by image, {facts['split']}", parts)
