"""The embedded images with masks: find a handwritten digit among clutter. Nothing is downloaded.

The digits are the real 8 x 8 images that scikit-learn ships (UCI optical recognition), enlarged to 24 x 24 and set on a
canvas of 32 x 32. Pixels with at least half the ink are foreground, or of the digit's class. Pieces of other digits lie
around, in the digit's own colour: only the shape tells them apart.
"""

from __future__ import annotations

import numpy as np

DIGITS = [str(i) for i in range(10)]
SIZES = {"train": 320, "validation": 80, "test": 160}
CANVAS, DIGIT, PIECE, PIECES = 32, 24, 9, 4  # sides in pixels; and the number of pieces of other digits
NOISE, CONTRAST = 20, 64  # of 255: standard deviation of pixel noise, least difference of ink and paper


def draw_digit_masks(seed: int = 0, classes: bool = False) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Images uint8 (32, 32, 3) and masks uint8 (32, 32) of every split. No source image occurs in two splits.

    Args:
        classes: a pixel of a digit is 1 more than the digit, not 1. The images are the same.
    """
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    scale, digits = DIGIT // 8, load_digits()
    values = digits.target.astype(np.uint8) + 1 if classes else np.ones(len(digits.images), dtype=np.uint8)
    inks = zoom(digits.images / 16, (1, scale, scale), order=1, grid_mode=True, mode="grid-constant")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(inks))
    pools = dict(zip(SIZES, np.split(order, [len(order) * 6 // 10, len(order) * 8 // 10]), strict=True))

    def draw(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        image, mask = _draw(inks[chosen], rng)
        return image, mask * values[chosen[0]]

    return {split: [draw(rng.choice(pools[split], PIECES + 1)) for _ in range(size)] for split, size in SIZES.items()}


def _draw(inks: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the first digit whole, and pieces of the others: image, and mask of 0 and 1."""
    ink = np.zeros((CANVAS, CANVAS), dtype=np.float32)
    for other in inks[1:]:
        y, x = rng.integers(0, DIGIT - PIECE + 1, 2)
        _place(ink, other[y : y + PIECE, x : x + PIECE], rng)
    digit = np.zeros_like(ink)
    _place(digit, inks[0], rng)
    ink = np.where(digit > 0.1, digit, ink)[..., None]
    paper = rng.uniform(0, 255 - 2 * CONTRAST, 3)
    paint = paper + rng.uniform(CONTRAST, 2 * CONTRAST, 3)  # brighter in every channel
    image = ink * paint + (1 - ink) * paper + rng.normal(0, NOISE, (CANVAS, CANVAS, 3))
    return image.clip(0, 255).astype(np.uint8), (digit >= 0.5).astype(np.uint8)


def _place(canvas: np.ndarray, picture: np.ndarray, rng: np.random.Generator) -> None:
    y, x = rng.integers(0, CANVAS - len(picture) + 1, 2)
    canvas[y : y + len(picture), x : x + len(picture)] = picture
