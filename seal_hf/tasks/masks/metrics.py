"""Metrics of masks on numpy arrays: of several classes, of outlines and pieces, of two classes; and those for a
Trainer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import first_output
from ...core.masks import IGNORE, log_odds, resized_logits
from ..labels.metrics import DEFAULT_GRID, best_threshold

# Metrics of masks of several classes: mean IoU over classes, IoU of each class, pixel accuracy.

AT_ONCE = 16  # images whose logits are resized together


class MaskCounts:
    """The confusion matrix of masks of C classes, added up over images of any sizes.

    Attributes:
        confusion: (C, C) int64, pixels by gold class (rows) and decided class.
    """

    def __init__(self, num_classes: int):
        self.confusion = np.zeros((num_classes, num_classes), dtype=np.int64)

    def add(self, decided: np.ndarray, labels: np.ndarray) -> None:
        """Add decided masks and labels, class ids of the same shape. Pixels whose label is 255 do not count.

        Raises:
            ValueError: shapes differ, or a value is not a class id.
        """
        size, decided, labels = len(self.confusion), np.asarray(decided), np.asarray(labels)
        if decided.shape != labels.shape or decided.size == 0:
            raise ValueError(
                "decided masks and labels must have the same shape, with at least one pixel; found "
                f"{decided.shape} and {labels.shape}"
            )
        counts = labels != IGNORE
        decided, labels = decided[counts].astype(np.int64), labels[counts].astype(np.int64)
        for name, values in (("decided masks", decided), ("labels", labels)):
            if values.size and not 0 <= values.min() <= values.max() < size:
                wrong = values[(values < 0) | (values >= size)][0]
                raise ValueError(f"{name} hold {wrong}, expected class ids from 0 to {size - 1}, or {IGNORE} in labels")
        self.confusion += np.bincount(labels * size + decided, minlength=size**2).reshape(size, size)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Pixels of the intersection and of the union of each class, (C,) each."""
        both = self.confusion.diagonal()
        return both, self.confusion.sum(0) + self.confusion.sum(1) - both

    def iou(self) -> np.ndarray:
        """IoU of each class over all pixels, (C,): NaN for a class that is neither gold nor decided anywhere."""
        both, union = self.pixels()
        return np.where(union > 0, both / np.maximum(union, 1), np.nan)

    def figures(self) -> dict[str, float]:
        """The same as [`class_mask_metrics`], from these counts."""
        iou, pixels = self.iou(), self.confusion.sum()
        known = iou[~np.isnan(iou)]
        return {
            "mean_iou": float(known.mean()) if len(known) else 1.0,
            "pixel_accuracy": float(self.confusion.trace() / pixels) if pixels else 1.0,
        }


def class_mask_metrics(decided: np.ndarray, labels: np.ndarray, num_classes: int | None = None) -> dict[str, float]:
    """Metrics of decided masks of several classes against gold masks.

    Args:
        decided: (N, H, W) of class ids.
        labels: (N, H, W) of class ids and 255; a pixel of 255 does not count.
        num_classes: C; default: one more than the largest id.

    Returns:
        `mean_iou`: the IoU of each class over the pixels of all images, averaged over the classes that are gold or
        decided somewhere. `pixel_accuracy`: share of right decisions among all pixels that count. Both are in [0, 1],
        and 1 if no pixel counts.

    Raises:
        ValueError: the arrays are empty, differ in shape, or hold other values.
    """
    if num_classes is None:
        labels = np.asarray(labels)
        num_classes = 1 + int(max(np.max(decided, initial=0), np.max(labels, initial=0, where=labels != IGNORE)))
    counts = MaskCounts(num_classes)
    counts.add(decided, labels)
    return counts.figures()


def class_overlaps(decided: np.ndarray, labels: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the intersection and of the union of each image and class, (N, C) each. Arguments and errors are those
    of [`class_mask_metrics`]."""
    both, either = (np.zeros((len(labels), num_classes), dtype=np.int64) for _ in range(2))
    for row, (ours, gold) in enumerate(zip(decided, labels, strict=True)):
        counts = MaskCounts(num_classes)
        counts.add(ours, gold)
        both[row], either[row] = counts.pixels()
    return both, either


def class_masks(predictions: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """Decided masks (N, H, W) from logits (N, C, h, w): the likeliest class, after resizing to `size`. Class ids
    (integers) stay as they are."""
    predictions = np.asarray(predictions)
    if predictions.dtype.kind in "iu":
        return predictions
    import torch  # only logits need it, to be resized

    parts = torch.as_tensor(predictions).split(AT_ONCE)
    size = predictions.shape[-2:] if size is None else size
    return torch.cat([resized_logits(part, size).argmax(1) for part in parts]).numpy()


# Shapes of masks beside their overlap: IoU of boundaries, and the number of connected components.

SHARE_OF_DIAGONAL = 0.02  # of the image: the width of the band (Cheng et al. 2021)


def boundary_counts(decided: np.ndarray, labels: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the boundary IoU of each image and class (Cheng, Girshick, Dollár, Berg, Kirillov, CVPR 2021):

        |(G_d ∩ G) ∩ (P_d ∩ P)| / |(G_d ∩ G) ∪ (P_d ∩ P)|

    G is the gold region of a class and P its decided one. The band G_d ∩ G has the pixels of G within d pixels of one
    outside G, by rows, columns and diagonals, as the authors' erosion by a square has. The edge of the image is
    outside. d is 2 % of the image's diagonal, rounded, at least 1. A pixel that does not count is in no band, and is
    outside of no region.

    Args:
        decided, labels: (N, H, W) class ids, and 255 in labels where a pixel does not count.
        num_classes: C.

    Returns:
        Pixels of the intersection and of the union, both (N, C) int64.
    """
    counts = labels != IGNORE
    width = band_width(labels.shape[1], labels.shape[2])
    both, either = (np.zeros((len(labels), num_classes), dtype=np.int64) for _ in range(2))
    for i in range(num_classes):
        ours, gold = (_bands((masks == i) & counts, counts, width) for masks in (decided, labels))
        both[:, i], either[:, i] = (ours & gold).sum((1, 2)), (ours | gold).sum((1, 2))
    return both, either


def band_width(height: int, width: int) -> int:
    """The width d of the band, in pixels, for images of this size."""
    return max(1, round(SHARE_OF_DIAGONAL * float(np.hypot(height, width))))


def further_components(decided: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """How many connected components the decided masks have beyond those of the gold, of each image and class: (N, C)
    int64, at least 0. Pixels are connected by sides and corners. Those that do not count belong to no component.

    Args:
        decided, labels, num_classes: as for [`boundary_counts`].
    """
    from scipy.ndimage import label  # slow to import

    counts, found = labels != IGNORE, np.zeros((len(labels), num_classes), dtype=np.int64)
    square = np.ones((3, 3), dtype=bool)
    for row, (ours, gold, known) in enumerate(zip(decided, labels, counts, strict=True)):
        for i in np.unique(ours[known]):
            found[row, i] = label((ours == i) & known, square)[1] - label((gold == i) & known, square)[1]
    return found.clip(0)


def _bands(regions: np.ndarray, counts: np.ndarray, width: int) -> np.ndarray:
    """The pixels of (N, H, W) regions within `width` of a pixel outside, bool."""
    from scipy.ndimage import maximum_filter

    side, outside = 2 * width + 1, (counts & ~regions).astype(np.uint8)
    return regions & (maximum_filter(outside, size=(1, side, side), mode="constant", cval=1) > 0)


def mask_metrics(probabilities: np.ndarray, labels: np.ndarray, threshold: float = 0.5) -> dict[str, float]:
    """Metrics of foreground probabilities against gold masks.

    Args:
        probabilities: (N, H, W) in [0, 1].
        labels: (N, H, W) of 0, 1 and 255; a pixel of 255 does not count.
        threshold: a pixel is foreground if its probability is >= threshold.

    Returns:
        `mean_iou`: |decided and gold| / |decided or gold| of each image's foreground, averaged over images (the papers'
        metric); 1 for an image in which both are empty. `pixel_accuracy`: share of right decisions among all pixels
        that count. Both are in [0, 1].

    Raises:
        ValueError: the arrays are empty, not (N, H, W), differ in shape, or hold other values.
    """
    decided, gold, counts = _checked(probabilities, labels, threshold)
    pixels = max(int(counts.sum()), 1)
    return {
        "mean_iou": float(_iou(decided, gold).mean()),
        "pixel_accuracy": float(1 - (decided ^ gold).sum() / pixels),
    }


def mask_iou(probabilities: np.ndarray, labels: np.ndarray, threshold: float = 0.5) -> np.ndarray:
    """IoU of each image, (N,), for a paired bootstrap. Its mean is the `mean_iou` of [`mask_metrics`], whose arguments
    it takes."""
    decided, gold, _ = _checked(probabilities, labels, threshold)
    return _iou(decided, gold)


def tune_mask_threshold(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The threshold of `DEFAULT_GRID` with the best mean IoU, and that IoU; among ties, the threshold nearest 0.5. Tune
    on validation, apply on test."""
    return best_threshold(mask_ious(probabilities, labels).mean(1), DEFAULT_GRID)


def mask_ious(probabilities: np.ndarray, labels: np.ndarray, grid: np.ndarray = DEFAULT_GRID) -> np.ndarray:
    """[`mask_iou`] of N images at each of G ascending thresholds, in one pass over the pixels: (G, N)."""
    _, gold, counts = _checked(probabilities, labels, 0.5)
    found = np.empty((len(grid), len(gold)))
    for i, (p, inside, counted) in enumerate(zip(probabilities, gold, counts, strict=True)):
        places = np.searchsorted(grid, np.asarray(p, dtype=np.float64), side="right")  # thresholds up to p
        hits, false = (_at_least(places[where], len(grid)) for where in (inside, counted & ~inside))
        union = inside.sum() + false
        found[:, i] = np.where(union > 0, hits / np.maximum(union, 1), 1.0)
    return found


def right_pixels(probabilities: np.ndarray, labels: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """How many pixels of one image (H, W) are decided as in its labels, at each of G ascending thresholds: (G,)."""
    places = np.searchsorted(grid, np.asarray(probabilities, dtype=np.float64), side="right")
    hits, false = (_at_least(places[labels == value], len(grid)) for value in (1, 0))
    return hits + (labels == 0).sum() - false


def _at_least(places: np.ndarray, size: int) -> np.ndarray:
    """How many pixels reach each of `size` thresholds, if `places` says how many thresholds each pixel reaches."""
    return np.bincount(places, minlength=size + 1)[::-1].cumsum()[::-1][1:]


def mask_compute_metrics(eval_prediction: Any, num_classes: int | None = None) -> dict[str, float]:
    """The metrics of masks for a Trainer, `Trainer(compute_metrics=mask_compute_metrics)`: for two classes those of
    [`mask_metrics`] at 0.5, for several those of [`class_mask_metrics`].

    Args:
        eval_prediction: has `.predictions` and `.label_ids` (N, H, W). Predictions are logits (N, 2, h, w), (N, 1, h,
            w) or log-odds (N, H, W) of two classes; or logits (N, C, h, w) of several; or decided class ids (N, H, W),
            integers, as with `SealTrainer(decode_predictions=True)`; or a tuple that starts with one of these. Logits
            of another size are resized bilinearly.
        num_classes: of class ids; default: two, if all of them and all labels are 0 or 1.

    Raises:
        ValueError: as these metrics.
    """
    labels, predictions = first_output(eval_prediction.label_ids), first_output(eval_prediction.predictions)
    decided = predictions.dtype.kind in "iu"
    both = decided and np.isin(predictions, (0, 1)).all() and np.isin(labels, (0, 1, IGNORE)).all()
    if both and num_classes in (None, 2):
        return mask_metrics(predictions, labels)
    if decided or (predictions.ndim == 4 and predictions.shape[1] > 2):
        return class_mask_metrics(class_masks(predictions, labels.shape[1:]), labels)
    return mask_metrics(mask_probabilities(predictions, labels.shape[1:]), labels)


mask_compute_metrics.figures = ("mean_iou", "pixel_accuracy")  # type: ignore[attr-defined]  # as for label sets


def mask_probabilities(logits: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """Foreground probabilities, (N, H, W), from logits (N, 2, h, w), (N, 1, h, w) or (N, H, W)."""
    import torch  # as in `class_masks`

    return torch.sigmoid(log_odds(torch.as_tensor(np.asarray(logits)), size)).numpy()


def _checked(
    probabilities: np.ndarray, labels: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decisions, gold and the pixels that count, all (N, H, W) bool; the first two are False at pixels that do not."""
    # float64 throughout: a threshold tuned in float64 and applied in float32 would decide ties differently
    probabilities, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if probabilities.ndim != 3 or probabilities.shape != labels.shape or probabilities.size == 0:
        raise ValueError(
            "probabilities and labels must both be (images, height, width), with at least one pixel; found "
            f"{probabilities.shape} and {labels.shape}"
        )
    for name, values, good, expected in (
        ("probabilities", probabilities, (probabilities >= 0) & (probabilities <= 1), "0 to 1: logits need a sigmoid"),
        ("labels", labels, np.isin(labels, (0, 1, IGNORE)), f"0, 1 or {IGNORE}"),
    ):
        if not good.all():
            place = tuple(int(i) for i in np.argwhere(~good)[0])
            raise ValueError(f"{name}{list(place)} is {values[place]}, expected {expected}")
    counts = labels != IGNORE
    return (probabilities >= threshold) & counts, labels == 1, counts


def _iou(decided: np.ndarray, gold: np.ndarray) -> np.ndarray:
    union = (decided | gold).sum((1, 2))
    return np.where(union > 0, (decided & gold).sum((1, 2)) / np.maximum(union, 1), 1.0)
