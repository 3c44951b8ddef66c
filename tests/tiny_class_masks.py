"""A tiny training run on masks of several classes: bright squares and dark stripes to be cut out of noise."""

import numpy as np
import tiny_masks
import torch
from tiny_masks import SIZE

from seal_hf import FCNConfig, FCNForSemanticSegmentation, LossNet, LossNetConfig, MaskRows, SealForSegmentation
from seal_hf.data.masks import SegmentationSplit
from seal_hf.tasks.masks.metrics import MaskCounts

NAMES = ["ground", "square", "stripe"]
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {name: i for i, name in enumerate(NAMES)}}


def shapes(count=16, size=SIZE):
    """Images with masks of three classes; some pixels do not count."""
    rng = np.random.default_rng(0)
    masks = np.zeros((count, size, size), dtype=np.uint8)
    for mask in masks:
        y, x = rng.integers(0, size - size // 2, 2)
        mask[:, x : x + size // 8] = 2
        mask[y : y + size // 2, y : y + size // 2] = 1
    pixels = rng.normal(80, 15, (count, size, size, 3)) + np.array([0, 70, -60])[masks][..., None]
    masks[::2, 0] = 255
    return SegmentationSplit(pixels.clip(0, 255).astype(np.uint8), masks)


def model(crop_size=None, **options):
    """Both nets, with parameters that do not depend on how a transformers line draws them."""
    options = {"width": 16, **options}
    loss_net = LossNet(
        LossNetConfig(space="masks", energy="class_grid", num_labels=3, energy_options=options, **LABELS)
    )
    torch.manual_seed(7)
    loss_net.energy.reset_parameters()
    task_net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(8, 8, 8), crop_size=crop_size, **LABELS))
    task_net.apply(task_net._init_weights)
    return SealForSegmentation(task_net, loss_net)


def class_iou(decided, labels, num_classes=3):
    """The IoU of each class over all images, (C,)."""
    counts = MaskCounts(num_classes)
    counts.add(decided, labels)
    return counts.iou()


def make(folder, nets=None, rows=None, **options):
    """As in tiny_masks."""
    rows = rows if rows is not None else MaskRows(shapes(), tiny_masks.CROP)
    return tiny_masks.make(folder, nets or model(), rows, **options)
