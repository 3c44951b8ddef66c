"""Metrics of masks against scikit-learn, image by image, and against the output space's own IoU."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, jaccard_score

import seal_hf.metrics
from seal_hf.tasks.masks import metrics
from seal_hf.tasks.masks.space import BinaryMaskSpace


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    probabilities, labels = rng.random((6, 5, 4)), rng.integers(0, 2, (6, 5, 4))
    labels[0, :2] = 255
    probabilities[1], labels[1] = 0.1, 0  # nothing there, nothing found
    labels[2] = 0
    return probabilities, labels


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_figures_are_scikit_learns(arrays, threshold):
    probabilities, labels = arrays
    ious = []
    for p, y in zip(probabilities, labels, strict=True):
        counts = y != 255
        ious.append(jaccard_score(y[counts], p[counts] >= threshold, zero_division=1.0))
    counts = labels != 255
    found = metrics.mask_metrics(probabilities, labels, threshold)
    assert found["mean_iou"] == pytest.approx(np.mean(ious))
    assert found["pixel_accuracy"] == pytest.approx(accuracy_score(labels[counts], probabilities[counts] >= threshold))
    np.testing.assert_allclose(metrics.mask_iou(probabilities, labels, threshold), ious)
    assert ious[1] == 1 and ious[2] == 0


def test_soft_iou_of_the_space_is_the_iou_on_hard_masks(arrays):
    probabilities, labels = arrays
    space = BinaryMaskSpace()
    gold, mask = space.gold(torch.from_numpy(labels))
    hard = torch.from_numpy(probabilities >= 0.5).float()
    score = space.score(hard.unsqueeze(1), gold, mask)[:, 0]
    np.testing.assert_allclose(score, metrics.mask_iou(probabilities, labels), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_pass_gives_the_iou_at_every_threshold(arrays, dtype):
    probabilities, labels = arrays[0].astype(dtype), arrays[1]
    probabilities[3] = np.round(probabilities[3], 2)  # on the thresholds
    labels[4] = 255
    expected = np.stack([metrics.mask_iou(probabilities, labels, threshold) for threshold in metrics.DEFAULT_GRID])
    assert np.array_equal(metrics.mask_ious(probabilities, labels), expected)


def test_the_tuned_threshold_is_the_best_of_the_grid(arrays):
    threshold, best = metrics.tune_mask_threshold(*arrays)
    figures = {t: metrics.mask_metrics(*arrays, t)["mean_iou"] for t in np.arange(1, 100) / 100}
    assert best == pytest.approx(max(figures.values())) and figures[threshold] == pytest.approx(best)


def test_a_threshold_is_tuned_and_applied_at_one_precision():
    """0.7 in float32 is below 0.7."""
    probabilities, labels = np.full((1, 1, 1), 0.7, dtype=np.float32), np.zeros((1, 1, 1))
    assert metrics.tune_mask_threshold(probabilities, labels) == (0.7, 1.0)
    assert metrics.mask_metrics(probabilities, labels, 0.7)["mean_iou"] == 1.0


class Prediction:
    def __init__(self, predictions, label_ids):
        self.predictions, self.label_ids = predictions, label_ids


@pytest.mark.parametrize("form", ["two channels", "one channel", "log-odds", "decided", "coarse", "tuple"])
def test_the_trainer_gets_the_same_figures_from_every_form_of_logits(form):
    rng = np.random.default_rng(1)
    z, labels = rng.normal(size=(3, 4, 6)).astype(np.float32), rng.integers(0, 2, (3, 4, 6))
    logits = {
        "two channels": np.stack([np.ones_like(z), z + 1], 1),
        "one channel": z[:, None],
        "log-odds": z,
        "decided": (z >= 0).astype(np.int64),
        "tuple": (z, None),
    }
    if form == "coarse":
        logits["coarse"] = z[:, None, ::2, ::2]
        scaled = torch.nn.functional.interpolate(torch.from_numpy(logits["coarse"]), size=(4, 6), mode="bilinear")
        z = scaled[:, 0].numpy()
    expected = metrics.mask_metrics(1 / (1 + np.exp(-z)), labels)
    assert metrics.mask_compute_metrics(Prediction(logits[form], labels)) == pytest.approx(expected)
    assert sorted(expected) == sorted(metrics.mask_compute_metrics.figures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, y: (p[0], y), r"\(5, 4\) and \(6, 5, 4\)"),
        (lambda p, y: (p[:0], y[:0]), "at least one pixel"),
        (lambda p, y: (np.where(p > 2, p, -0.5), y), r"probabilities\[0, 0, 0\] is -0.5"),
        (lambda p, y: (p, np.where(y == 255, 7, y)), r"labels\[0, 0, 0\] is 7, expected 0, 1 or 255"),
    ],
)
def test_arrays_that_are_no_masks_are_refused(arrays, change, message):
    with pytest.raises(ValueError, match=message):
        metrics.mask_metrics(*change(*arrays))


def test_evaluate_takes_the_metrics(arrays):
    evaluate = pytest.importorskip("evaluate")
    probabilities, labels = arrays
    both = evaluate.combine([seal_hf.metrics.MeanIoU(), seal_hf.metrics.PixelAccuracy()])
    found = both.compute(predictions=probabilities.tolist(), references=labels.tolist())
    assert found == pytest.approx(metrics.mask_metrics(probabilities, labels))
