"""Metrics of masks of several classes: mean IoU over classes, IoU of each class, pixel accuracy."""

from __future__ import annotations

import numpy as np

from ..structures.masks import IGNORE, resized_logits

AT_ONCE = 16  # images whose logits are resized together


class MaskCounts:
    """The confusion matrix of masks of C classes, added up over images of any sizes.

    Attributes:
        confusion: (C, C) int64, pixels by gold class (rows) and decided class.
    """

    def __init__(self, num_classes: int):
        self.confusion = np.zeros((num_classes, num_classes), dtype=np.int64)

    def add(self, decided: np.ndarray, labels: np.ndarray) -> None:
        """Class ids of the same shape; pixels whose label is 255 do not count.

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
        """As [`class_mask_metrics`]."""
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
    return _counted(decided, labels, num_classes).figures()


def class_iou(decided: np.ndarray, labels: np.ndarray, num_classes: int | None = None) -> np.ndarray:
    """IoU of each class, (C,), NaN for a class that is neither gold nor decided; as [`class_mask_metrics`]."""
    return _counted(decided, labels, num_classes).iou()


def class_overlaps(decided: np.ndarray, labels: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the intersection and of the union of each image and class, (N, C) each; as [`class_mask_metrics`]."""
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


def _counted(decided: np.ndarray, labels: np.ndarray, num_classes: int | None) -> MaskCounts:
    if num_classes is None:
        labels = np.asarray(labels)
        num_classes = 1 + int(max(np.max(decided, initial=0), np.max(labels, initial=0, where=labels != IGNORE)))
    counts = MaskCounts(num_classes)
    counts.add(decided, labels)
    return counts
