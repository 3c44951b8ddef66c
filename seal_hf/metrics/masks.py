"""Metrics of binary masks on numpy arrays: mean IoU per image and pixel accuracy; and the metrics of masks for a
Trainer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..structures.masks import IGNORE, log_odds
from .class_masks import class_mask_metrics, class_masks
from .multilabel import DEFAULT_GRID, best_threshold, first_output


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


def tune_mask_threshold(
    probabilities: np.ndarray, labels: np.ndarray, grid: np.ndarray = DEFAULT_GRID
) -> tuple[float, float]:
    """The threshold of `grid` with the best mean IoU, and that IoU; among ties, the threshold nearest 0.5. Tune on
    validation, apply on test."""
    return best_threshold(mask_ious(probabilities, labels, grid).mean(1), grid)


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
    """`Trainer(compute_metrics=mask_compute_metrics)`: for two classes the metrics of [`mask_metrics`] at 0.5, for
    several those of [`class_mask_metrics`].

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
