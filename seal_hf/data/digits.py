"""The embedded data set: images of one to three handwritten digits, with labels that depend on each other. Nothing is
downloaded.

The digits are the real 8 x 8 images that scikit-learn ships (UCI optical recognition). An example is a canvas of three
slots, 8 x 24 pixels in [0, 1], with one to three of them filled from the left. Its 18 labels:

* `digit 0` .. `digit 9`: the digit occurs;
* `several`: more than one slot is filled;      `repeated`: some digit occurs twice;
* `sorted`: the digits do not decrease from left to right, and there are several;
* `odd sum`, `sum above 12`;                    `contains a prime` (2, 3, 5, 7);
* `largest is 8 or 9`;                          `only even digits`.

The last eight depend on the picture as a whole, and tie the first ten together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .common import MultiLabelData, Origins, feature_data

SLOTS = 3
DERIVED = (
    "several",
    "repeated",
    "sorted",
    "odd sum",
    "sum above 12",
    "contains a prime",
    "largest is 8 or 9",
    "only even digits",
)
LABEL_NAMES = [f"digit {d}" for d in range(10)] + list(DERIVED)
SIZES = {"train": 2000, "validation": 500, "test": 1000}


def digit_labels(digits: np.ndarray) -> np.ndarray:
    """Labels of rows of digits.

    Args:
        digits: (N, 3) integers, -1 for an empty slot; filled from the left, at least one.

    Returns:
        (N, 18) of 0/1, in the order of `LABEL_NAMES`.
    """
    filled = digits >= 0
    counts = np.stack([(digits == d).sum(1) for d in range(10)], axis=1)  # (N, 10)
    several = filled.sum(1) > 1
    steps = (np.diff(digits, axis=1) >= 0) | ~filled[:, 1:]
    total = np.where(filled, digits, 0).sum(1)
    derived = [
        several,
        (counts > 1).any(1),
        several & steps.all(1),
        total % 2 == 1,
        total > 12,
        counts[:, [2, 3, 5, 7]].any(1),
        digits.max(1) >= 8,
        (counts[:, 1::2].sum(1) == 0),
    ]
    return np.concatenate([counts > 0, np.stack(derived, axis=1)], axis=1).astype(np.float32)


def digit_groups(seed: int = 0) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each split with its N examples: pixels (N, 3, 8, 8) in [0, 1], 0 in an empty slot, and digits (N, 3) as in
    [`digit_labels`]. No source image occurs in two splits."""
    from sklearn.datasets import load_digits

    source = load_digits()
    pixels = (source.images / 16).astype(np.float32)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pixels))
    pools = dict(zip(SIZES, np.split(order, [len(order) * 6 // 10, len(order) * 8 // 10]), strict=True))
    for split, size in SIZES.items():
        chosen = rng.choice(pools[split], (size, SLOTS))
        empty = np.arange(SLOTS) >= rng.integers(1, SLOTS + 1, (size, 1))  # (N, 3), filled from the left
        yield split, np.where(empty[:, :, None, None], 0, pixels[chosen]), np.where(empty, -1, source.target[chosen])


def load_digit_groups(normalize: str = "none", seed: int = 0, max_train_rows: int | None = None) -> MultiLabelData:
    """The embedded data: 2000 / 500 / 1000 rows, 192 features, 18 labels.

    Args:
        normalize: `none`, `minmax`, `standard` or `auto`.
        seed: of the composition.
        max_train_rows: keep the first rows of the train split.
    """
    splits, origins = {}, {}
    for split, slots, digits in digit_groups(seed):
        features = slots.transpose(0, 2, 1, 3).reshape(len(slots), -1)  # rows of the picture: (N, 8 * 24)
        splits[split] = (features, digit_labels(digits))
        origins[split] = Origins(f"digits, {split} split", rows=np.arange(len(slots)))
    names = [f"pixel {row},{column}" for row in range(8) for column in range(8 * SLOTS)]
    where = "embedded digits"
    return feature_data("digits", splits, origins, names, LABEL_NAMES, normalize, where, [], max_train_rows)
