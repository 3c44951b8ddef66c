"""The embedded data sets: handwritten digits with label sets, as features or as images; digits with masks; sentences
with tags; sentences with trees. Nothing is downloaded.

The digits are the real 8 x 8 images that scikit-learn ships (UCI optical recognition). None occurs in two splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import datasets
import numpy as np
from datasets import Dataset

from ..core.tag_schemes import Span
from .brackets import Tree
from .common import IMAGE, DataError, MultiLabelData, Origins, feature_data, label_data
from .sentences import ORIGINS, Rows

# --- digits with label sets -------------------------------------------------------------------------------------------
# An example is a canvas of three slots, 8 x 24 pixels in [0, 1], with one to three of them filled from the left. Its 18
# labels:
#
# * `digit 0` .. `digit 9`: the digit occurs;
# * `several`: more than one slot is filled;      `repeated`: some digit occurs twice;
# * `sorted`: the digits do not decrease from left to right, and there are several;
# * `odd sum`, `sum above 12`;                    `contains a prime` (2, 3, 5, 7);
# * `largest is 8 or 9`;                          `only even digits`.
#
# The last eight depend on the picture as a whole, and tie the first ten together.

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
GROUP_SIZES = {"train": 2000, "validation": 500, "test": 1000}


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
    pools = dict(zip(GROUP_SIZES, np.split(order, [len(order) * 6 // 10, len(order) * 8 // 10]), strict=True))
    for split, size in GROUP_SIZES.items():
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


# --- the same as images -----------------------------------------------------------------------------------------------
# The same groups, drawn on a canvas of 16 x 36 pixels with three slots. The digit of a slot stands at a random place in
# it.

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
        images[split] = _encoded(_canvases(slots, rng))
        labels[split] = digit_labels(digits)
        origins[split] = Origins(f"digit_images, {split} split", rows=np.arange(len(slots)))
    where = "embedded digit images"
    return label_data("digit_images", where, images, labels, origins, LABEL_NAMES, [], max_train_rows)


def _canvases(slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
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


# --- digits with masks ------------------------------------------------------------------------------------------------
# Find a handwritten digit among clutter, or the class of each digit.

DIGITS = [str(i) for i in range(10)]
MASK_SIZES = {"train": 320, "validation": 80, "test": 160}
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
    pools = dict(zip(MASK_SIZES, np.split(order, [len(order) * 6 // 10, len(order) * 8 // 10]), strict=True))
    if not classes:
        inks = _enlarged(inks)

    def draw(pool: np.ndarray) -> Drawn:
        chosen = rng.choice(pool, TOGETHER if classes else PIECES + 1)
        return _several(inks[chosen], values[chosen], rng) if classes else _among_pieces(inks[chosen], rng)

    return {split: [draw(pools[split]) for _ in range(size)] for split, size in MASK_SIZES.items()}


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


# --- sentences with tags ----------------------------------------------------------------------------------------------
# Synthetic sentences whose tags depend on each other more than on their words. Spans of three types (X, Y, Z; BIO tags)
# lie between outside words. The tags are not a first-order chain. The type of a span mostly follows that of the
# previous span in the circle X, Y, Z. A span of X mostly has two words, of Y one to three, of Z three or four. A word
# (`w0` .. `w39`) comes in 60 % of cases from the ten words of its type (or of the outside), else from all forty. So a
# word tells little, and its neighbours tell much.

TYPES = "XYZ"
NUM_WORDS = 40
OWN = 0.6  # share of words drawn from those of the type
TAG_SIZES = {"train": 400, "validation": 150, "test": 300}
LENGTHS = {0: (0.0, 0.9, 0.1, 0.0), 1: (0.4, 0.3, 0.3, 0.0), 2: (0.0, 0.1, 0.5, 0.4)}  # of a span: P(1 .. 4 words)
NEXT = 0.8  # probability that the next span is of the next type in the circle; the two others share the rest


def toy_rows(seed: int = 0) -> dict[str, Rows]:
    """400 / 150 / 300 sentences of 8 to 15 words: columns `words` and `tags` (names), by split."""
    rng = np.random.default_rng(seed)
    return {
        split: _sample(size, rng) | {ORIGINS: Origins(f"toy_tags, {split} split", rows=np.arange(size))}
        for split, size in TAG_SIZES.items()
    }


def _sample(size: int, rng: np.random.Generator) -> Rows:
    rows: Rows = {"words": [], "tags": []}
    for _ in range(size):
        length = int(rng.integers(8, 16))
        kinds: list[int] = []  # type of each word; 3 = outside
        tags: list[str] = []
        kind = int(rng.integers(3))
        while len(tags) < length:
            gap = int(rng.integers(0, 3))
            kind = (kind + int(rng.choice(3, p=[NEXT, (1 - NEXT) / 2, (1 - NEXT) / 2])) + 1) % 3
            span = 1 + int(rng.choice(4, p=LENGTHS[kind]))
            kinds += [3] * gap + [kind] * span
            tags += ["O"] * gap + [f"B-{TYPES[kind]}"] + [f"I-{TYPES[kind]}"] * (span - 1)
        own = np.asarray(kinds[:length]) * 10 + rng.integers(0, 10, length)
        words = np.where(rng.uniform(size=length) < OWN, own, rng.integers(0, NUM_WORDS, length))
        rows["words"].append([f"w{word}" for word in words])
        rows["tags"].append(tags[:length])
    return rows


# --- sentences with trees ---------------------------------------------------------------------------------------------
# Sentences of a small grammar with probabilities. What a phrase belongs to depends on its first word and on the rest of
# the sentence: one with `of` belongs to a noun, one with `in` or `with` to a verb, one with `near` to either. `saw`,
# `left` and `found` are read in several ways. No sentence occurs twice.

TREE_SIZES = {"train": 300, "validation": 100, "test": 200}
DEEPEST = 4  # from here on, each symbol takes its first rule
RULES: dict[str, list[tuple[float, str]]] = {  # symbol -> (probability, children)
    "S": [(0.8, "NP VP ."), (0.1, "PP , NP VP ."), (0.1, "NP VP , CLAUSE .")],
    "CLAUSE": [(1.0, "NP VP")],
    "NP": [(0.25, "PRP"), (0.4, "DT NN"), (0.15, "DT JJ NN"), (0.15, "BASE OF_PP"), (0.05, "NP , SBAR ,")],
    "BASE": [(0.7, "DT NN"), (0.3, "DT JJ NN")],
    "VP": [(0.2, "VBD"), (0.4, "VBD NP"), (0.2, "VBD NP PP"), (0.1, "VBD SBAR"), (0.1, "VBD PP ADVP")],
    "PP": [(1.0, "IN NP")],
    "OF_PP": [(1.0, "OF NP")],
    "SBAR": [(1.0, "WDT CLAUSE")],
    "ADVP": [(1.0, "RB")],
}
WRITTEN = {"CLAUSE": "S", "BASE": "NP", "OF_PP": "PP", "OF": "IN"}
WORDS = {
    "PRP": "she he it they",
    "DT": "the a every",
    "JJ": "old red quiet left found",
    "NN": "cat dog house ship book saw park letter",
    "VBD": "saw heard left read found painted",
    "IN": "with in near",
    "OF": "of of near",
    "WDT": "that",
    "RB": "often there quickly",
    ".": ".",
    ",": ",",
}


def toy_trees(seed: int = 0) -> dict[str, Rows]:
    """300 / 100 / 200 trees of mostly 4 to 15 words, by split: columns `words`, `tags` and `pos`."""
    rng = np.random.default_rng(seed)
    known: dict[tuple[str, ...], Tree] = {}
    while len(known) < sum(TREE_SIZES.values()):
        tree = Tree([], [], [])
        _expand("S", 0, tree, rng)
        known.setdefault(tuple(tree.words), tree)
    left, splits = iter(known.values()), {}
    for split, size in TREE_SIZES.items():
        trees = [*islice(left, size)]
        columns = {name: [getattr(tree, name) for tree in trees] for name in ("words", "tags", "pos")}
        splits[split] = columns | {ORIGINS: Origins(f"toy_trees, {split} split", rows=np.arange(size))}
    return splits


def _expand(symbol: str, depth: int, tree: Tree, rng: np.random.Generator) -> None:
    """Add what a symbol becomes to the end of a tree."""
    if symbol in WORDS:
        tree.words.append(str(rng.choice(WORDS[symbol].split())))
        tree.pos.append(WRITTEN.get(symbol, symbol))
        return
    chances, children = zip(*RULES[symbol], strict=True)
    chosen = children[0] if depth >= DEEPEST else children[int(rng.choice(len(children), p=chances))]
    place, start = len(tree.spans), len(tree.words)
    tree.spans.append(Span(WRITTEN.get(symbol, symbol), 0, 0))
    for child in chosen.split():
        _expand(child, depth + 1, tree, rng)
    tree.spans[place] = Span(WRITTEN.get(symbol, symbol), start, len(tree.words))
