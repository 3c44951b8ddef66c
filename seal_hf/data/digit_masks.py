"""The embedded images with masks: find a handwritten digit among clutter, or the class of each digit. Nothing is
downloaded.

The digits are the real 8 x 8 images that scikit-learn ships (UCI optical recognition). No digit occurs in two splits.
"""

from __future__ import annotations

import numpy as np

DIGITS = [str(i) for i in range(10)]
SIZES = {"train": 320, "validation": 80, "test": 160}
CANVAS, DIGIT, PIECE, PIECES = 32, 24, 9, 4  # sides in pixels; and the number of pieces of other digits
SMALL, TOGETHER = 8, 3  # side of a digit with a class, in a quarter of its image; and their number there
NOISE, CONTRAST = 20, 64  # of 255: standard deviation of pixel noise, least difference of ink and paper

Drawn = tuple[np.ndarray, np.ndarray]


def draw_digit_masks(seed: int = 0, classes: bool = False) -> dict[str, list[Drawn]]:
    """Images uint8 (S, S, 3) and masks uint8 (S, S) of every split.

    - Of two classes, S = 32: one digit, enlarged to 24 x 24. Pieces of other digits lie around in its own colour: only
      the shape tells them apart.
    - With classes, S = 16: three digits in quarters of the image. A pixel of a digit is 1 more than the digit.

    Pixels with at least half the ink belong to the digit.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    inks, values = digits.images.astype(np.float32) / 16, digits.target.astype(np.uint8) + 1
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(inks))
    pools = dict(zip(SIZES, np.split(order, [len(order) * 6 // 10, len(order) * 8 // 10]), strict=True))
    if not classes:
        inks = _enlarged(inks)

    def draw(pool: np.ndarray) -> Drawn:
        chosen = rng.choice(pool, TOGETHER if classes else PIECES + 1)
        return _several(inks[chosen], values[chosen], rng) if classes else _among_pieces(inks[chosen], rng)

    return {split: [draw(pools[split]) for _ in range(size)] for split, size in SIZES.items()}


def _enlarged(inks: np.ndarray) -> np.ndarray:
    from scipy.ndimage import zoom

    scale = DIGIT // inks.shape[1]
    return zoom(inks, (1, scale, scale), order=1, grid_mode=True, mode="grid-constant")


def _several(inks: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> Drawn:
    """Each digit in a quarter of its own: image, and mask of their values."""
    ink, mask = np.zeros((2 * SMALL, 2 * SMALL), np.float32), np.zeros((2 * SMALL, 2 * SMALL), np.uint8)
    for quarter, digit, value in zip(rng.permutation(4), inks, values, strict=False):
        row, column = SMALL * (quarter // 2), SMALL * (quarter % 2)
        place = slice(row, row + SMALL), slice(column, column + SMALL)
        ink[place], mask[place] = digit, value * (digit >= 0.5)
    return _paint(ink, rng), mask


def _among_pieces(inks: np.ndarray, rng: np.random.Generator) -> Drawn:
    """The first digit whole, and pieces of the others: image, and mask of 0 and 1."""
    ink = np.zeros((CANVAS, CANVAS), dtype=np.float32)
    for other in inks[1:]:
        y, x = rng.integers(0, DIGIT - PIECE + 1, 2)
        _place(ink, other[y : y + PIECE, x : x + PIECE], rng)
    digit = np.zeros_like(ink)
    _place(digit, inks[0], rng)
    return _paint(np.where(digit > 0.1, digit, ink), rng), (digit >= 0.5).astype(np.uint8)


def _paint(ink: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An image uint8 (..., 3) from shares of ink: a random colour on a darker one, and noise."""
    ink = ink[..., None]
    paper = rng.uniform(0, 255 - 2 * CONTRAST, 3)
    paint = paper + rng.uniform(CONTRAST, 2 * CONTRAST, 3)  # brighter in every channel
    image = ink * paint + (1 - ink) * paper + rng.normal(0, NOISE, (*ink.shape[:2], 3))
    return image.clip(0, 255).astype(np.uint8)


def _place(canvas: np.ndarray, picture: np.ndarray, rng: np.random.Generator) -> None:
    y, x = rng.integers(0, CANVAS - len(picture) + 1, 2)
    canvas[y : y + len(picture), x : x + len(picture)] = picture
