"""Metrics of masks of several classes against scikit-learn, and the palette against the colours of Pascal VOC."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, jaccard_score
from tiny_class_masks import class_iou

from seal_hf.core.masks import palette
from seal_hf.metrics import class_mask_metrics, mask_compute_metrics
from seal_hf.tasks.masks.metrics import MaskCounts, class_masks


@pytest.fixture
def arrays():
    """Decisions and labels of five classes: class 3 is only decided, and class 4 is neither."""
    rng = np.random.default_rng(0)
    decided, labels = rng.integers(0, 4, (6, 5, 4)), rng.integers(0, 3, (6, 5, 4))
    labels[0, :2] = 255
    labels[1] = 255
    return decided, labels


def test_figures_are_scikit_learns(arrays):
    decided, labels = arrays
    counts = labels != 255
    y, p = labels[counts], decided[counts]
    expected = {"mean_iou": jaccard_score(y, p, average="macro"), "pixel_accuracy": accuracy_score(y, p)}
    assert class_mask_metrics(decided, labels) == pytest.approx(expected)
    assert class_mask_metrics(decided, labels, 5) == pytest.approx(expected)  # over the classes that occur
    iou = class_iou(decided, labels, 5)
    np.testing.assert_allclose(iou[:4], jaccard_score(y, p, average=None, labels=range(4)))
    assert iou[3] == 0 and np.isnan(iou[4])


def test_images_of_several_sizes_add_up(arrays):
    decided, labels = arrays
    counts = MaskCounts(4)
    counts.add(decided[:2], labels[:2])
    for mask, gold in zip(decided[2:], labels[2:], strict=True):
        counts.add(mask[:3], gold[:3])
        counts.add(mask[3:], gold[3:])
    assert counts.figures() == class_mask_metrics(decided, labels)


def test_without_pixels_that_count_all_is_right(arrays):
    decided, labels = arrays
    assert class_mask_metrics(decided, np.full_like(labels, 255)) == {"mean_iou": 1.0, "pixel_accuracy": 1.0}


class Prediction:
    def __init__(self, predictions, label_ids):
        self.predictions, self.label_ids = predictions, label_ids


@pytest.mark.parametrize("form", ["logits", "coarse", "decided", "tuple"])
def test_the_trainer_gets_the_same_figures_from_every_form(form):
    rng = np.random.default_rng(1)
    z, labels = rng.normal(size=(20, 3, 4, 6)).astype(np.float32), rng.integers(0, 3, (20, 4, 6))
    given = {"logits": z, "decided": z.argmax(1), "tuple": (z, None), "coarse": z[..., ::2, ::2]}[form]
    if form == "coarse":
        z = torch.nn.functional.interpolate(torch.from_numpy(given), size=(4, 6), mode="bilinear").numpy()
    assert np.array_equal(class_masks(given[0] if form == "tuple" else given, (4, 6)), z.argmax(1))
    found = mask_compute_metrics(Prediction(given, labels))
    assert found == class_mask_metrics(z.argmax(1), labels) and sorted(found) == sorted(mask_compute_metrics.figures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, y: (d[0], y), r"\(5, 4\) and \(6, 5, 4\)"),
        (lambda d, y: (d[:0], y[:0]), "at least one pixel"),
        (lambda d, y: (d + 2, y), "decided masks hold [45], expected class ids from 0 to 3"),
        (lambda d, y: (d, np.where(y == 255, -100, y)), "labels hold -100, expected class ids"),
    ],
)
def test_arrays_that_are_no_masks_are_refused(arrays, change, message):
    with pytest.raises(ValueError, match=message):
        class_mask_metrics(*change(*arrays), 4)


def test_colours_are_those_of_pascal_voc():
    colours = palette()
    assert colours.shape == (256, 3) and colours.dtype == np.uint8 and len(np.unique(colours, axis=0)) == 256
    known = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 4: (0, 0, 128), 8: (64, 0, 0), 15: (192, 128, 128),
             20: (0, 64, 128), 255: (224, 224, 192)}  # fmt: skip
    assert {value: tuple(colours[value].tolist()) for value in known} == known
