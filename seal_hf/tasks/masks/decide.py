"""`seal-hf decide --task masks`: a threshold for foreground probabilities, or the likeliest of several classes.

An `.npz` has the array `probabilities` in [0, 1]: (N, H, W) of the foreground, or (N, C, H, W) of classes, which sum to
1. With `--logits true` its values are logits, and the array may be called `logits`. An axis of one channel, (N, 1, H,
W), is left out. The gold masks are the array `gold`, (N, H, W) of 0, 1, ..., and 255 for a pixel that does not count.
Images are matched by the array `ids` if both files have it, else by their order. The decided masks are written as the
array `masks`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...cli.decide import Fitted, Measured, tell
from ...core.arrays import sigmoid
from ...core.masks import IGNORE
from ...data.common import DataError
from ...data.score_files import ARRAYS, ids_of_arrays, matched, probabilities
from ...data.stored_arrays import arrays_of
from ...utils.files import whole_file
from ...utils.messages import results_table
from .decisions import ClassMaskDecisions, MaskDecisions
from .metrics import class_mask_metrics, mask_metrics

WRITTEN, REPORTED = (".npz",), (".json",)
SUM = 1e-3  # a pixel's probabilities sum to 1 within this


def fit(options: Namespace) -> Fitted:
    """Fit the threshold of the best mean IoU, and choose by cross-fitting whether to use it. Of several classes there
    is nothing to fit."""
    p, gold = _read_both(options)
    decisions: Any = ClassMaskDecisions(options.decoder or "fixed")
    if p.ndim == 3:
        decisions = MaskDecisions.fit(p, gold, decoder=options.decoder)
    decisions.named()
    return Fitted(
        decisions, f"{len(gold):,} images", {name: _figures(decisions, name, p, gold) for name in decisions.names}
    )


def apply(options: Namespace, output: Path) -> list[str]:
    """Write the decided masks; what to tell."""
    p, _ = _read(options)
    with whole_file(output) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, masks=_decided(_decisions(options, p), options.decoder, p))
    return [f"{len(p)} images in {output}."]


def report(options: Namespace) -> Measured:
    """Figures of the decided masks."""
    p, gold = _read_both(options)
    decisions = _decisions(options, p)
    decoder = decisions.decoder if options.decoder is None else options.decoder
    figures = _figures(decisions, decoder, p, gold)
    table = results_table([{"figure": name, "value": value} for name, value in figures.items()])
    return Measured({"rows": len(gold), "decoder": decoder, "figures": figures}, [f"{len(gold)} images", table])


def _decisions(options: Namespace, p: np.ndarray) -> Any:
    return (MaskDecisions if p.ndim == 3 else ClassMaskDecisions).load(options.decisions)


def _decided(decisions: Any, decoder: str | None, p: np.ndarray) -> np.ndarray:
    """(N, H, W) uint8."""
    if p.ndim == 3:
        return (p >= decisions.cut(decoder)).astype(np.uint8)
    decisions.named(decoder)
    return p.argmax(1).astype(np.uint8)


def _figures(decisions: Any, decoder: str | None, p: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    if p.ndim == 3:
        return {"threshold": decisions.cut(decoder)} | mask_metrics(p, gold, decisions.cut(decoder))
    return class_mask_metrics(_decided(decisions, decoder, p), gold, p.shape[1])


def _read_both(options: Namespace) -> tuple[np.ndarray, np.ndarray]:
    p, ids = _read(options)
    gold, own = _array(options.gold, ("gold", "arr_0"), "gold of shape (images, height, width)", (3,))
    places, notes = matched(options.gold, own, len(gold), options.probabilities, ids, len(p))
    tell(notes)
    gold = gold[places]
    if gold.shape[1:] != p.shape[-2:]:
        raise DataError(f"{options.gold}: gold masks of shape {gold.shape}, but the scores have the shape {p.shape}.")
    classes = 2 if p.ndim == 3 else p.shape[1]
    if not (wrong := ~((gold >= 0) & (gold < classes) & (gold == np.rint(gold)) | (gold == IGNORE))).any():
        if not ((gold > 0) & (gold != IGNORE)).any():
            hint = f" Pixels of {IGNORE} do not count: write 1 in their place." if (gold == IGNORE).any() else ""
            raise DataError(f"{options.gold}: no gold pixel is 1, so there is nothing to fit or measure.{hint}")
        return p, gold.astype(np.uint8)
    raise DataError(
        f"{options.gold}: a gold pixel is {gold[wrong][0]:g}; expected 0 to {classes - 1}, or {IGNORE} where a pixel "
        "does not count."
    )


def _read(options: Namespace) -> tuple[np.ndarray, list[str] | None]:
    """Probabilities, float64: (N, H, W) of the foreground, or (N, C, H, W) of classes; and the ids of the images.

    Raises:
        ValueError: names the file, and what is no probability.
    """
    name = options.probabilities
    expected = "probabilities of shape (images, height, width), or (images, classes, height, width)"
    found, ids = _array(name, ARRAYS, expected, (3, 4))
    p = found.astype(np.float64)
    if options.logits and np.isfinite(p).all():
        p = sigmoid(p) if p.ndim == 3 else np.exp(p - p.max(1, keepdims=True))
        p = p if p.ndim == 3 else p / p.sum(1, keepdims=True)
    p = probabilities(p)
    if (wrong := ~((p >= 0) & (p <= 1))).any():
        image = int(np.argwhere(wrong)[0][0])
        said = f"{name}: a probability of image {image} (counting from 0) is {p[wrong][0]:.7g}"
        raise DataError(f"{said}; expected 0 to 1. Logits need --logits true.")
    if p.ndim == 4 and (wrong := np.abs(p.sum(1) - 1) > SUM).any():
        image, row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise DataError(
            f"{name}: the probabilities of image {image}, pixel ({row}, {column}), sum to "
            f"{p[image, :, row, column].sum():.4g}, not to 1. Give those of a softmax, or logits with --logits true."
        )
    return p, ids


def _array(
    name: str, keys: Sequence[str], expected: str, dimensions: tuple[int, ...]
) -> tuple[np.ndarray, list[str] | None]:
    """An array of a file, without an axis of one channel, and the ids of its images, or None."""
    arrays = arrays_of(name)
    found = next((arrays[key] for key in keys if key in arrays), None)
    if found is not None and found.ndim == 4 and found.shape[1] == 1:
        found = found[:, 0]
    if found is None or found.ndim not in dimensions or found.dtype.kind not in "biuf" or not found.size:
        said = ", ".join(f"{each} {array.shape}" for each, array in arrays.items()) or "none"
        raise DataError(f"{name}: its arrays are {said}; expected {expected}.")
    return found, ids_of_arrays(name, arrays, len(found))
