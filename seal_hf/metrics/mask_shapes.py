"""Shapes of masks beside their overlap: IoU of boundaries, and the number of connected components."""

from __future__ import annotations

import numpy as np

from ..structures.masks import IGNORE

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
    """d, in pixels, for images of this size."""
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
