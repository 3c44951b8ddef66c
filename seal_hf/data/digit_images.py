"""The embedded images with label sets: the groups of `digits.py`, drawn. Nothing is downloaded.

A canvas of 16 x 36 pixels has three slots. The digit of a slot stands at a random place in it. The labels are those of
`digits`.
"""

from __future__ import annotations

import datasets
import numpy as np
from datasets import Dataset

from .common import IMAGE, DataError, MultiLabelData, Origins, label_data
from .digits import LABEL_NAMES, SLOTS, digit_groups, digit_labels

SLOT = (16, 12)  # height and width in pixels
SIDE = 8  # of a digit


def load_digit_images(seed: int = 0, max_train_rows: int | None = None) -> MultiLabelData:
    """2000 / 500 / 1000 grey images, 18 labels.

    Args:
        seed: of the composition, and of the places.
        max_train_rows: keep the first rows of the train split.

    Raises:
        DataError: pillow, which encodes the images, is not installed.
    """
    rng = np.random.default_rng((seed, 1))  # the groups are those of the same seed in `digits`
    images, labels, origins = {}, {}, {}
    for split, slots, digits in digit_groups(seed):
        images[split] = _encoded(_drawn(slots, rng))
        labels[split] = digit_labels(digits)
        origins[split] = Origins(f"digit_images, {split} split", rows=np.arange(len(slots)))
    where = "embedded digit images"
    return label_data("digit_images", where, images, labels, origins, LABEL_NAMES, [], max_train_rows)


def _drawn(slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pixels of slots, (N, 3, 8, 8) in [0, 1] -> canvases (N, 16, 36), uint8."""
    height, width = SLOT
    canvas = np.zeros((len(slots), SLOTS, height, width), dtype=np.float32)
    top = rng.integers(0, height - SIDE + 1, (len(slots), SLOTS, 1, 1)) + np.arange(SIDE)[:, None]
    left = rng.integers(0, width - SIDE + 1, (len(slots), SLOTS, 1, 1)) + np.arange(SIDE)
    rows, columns = np.arange(len(slots))[:, None, None, None], np.arange(SLOTS)[:, None, None]
    canvas[rows, columns, top, left] = slots
    whole = canvas.transpose(0, 2, 1, 3).reshape(len(slots), height, SLOTS * width)
    return (255 * whole).round().astype(np.uint8)


def _encoded(canvases: np.ndarray) -> Dataset:
    feature = datasets.Image()
    try:
        cells = [feature.encode_example(canvas) for canvas in canvases]
    except ImportError as error:
        raise DataError("`digit_images` needs pillow: pip install 'seal_hf[vision]'.") from error
    return Dataset.from_dict({IMAGE: cells}, features=datasets.Features({IMAGE: feature}))
