"""A tiny training run on masks, for tests: bright squares to be cut out of noise."""

import numpy as np
import torch
import torch.nn.functional as F
from tiny_run import arguments
from transformers import SegformerConfig, SegformerForSemanticSegmentation
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    FCNConfig,
    FCNForSemanticSegmentation,
    LossNet,
    LossNetConfig,
    MaskRows,
    SealForSegmentation,
    SealTrainer,
)
from seal_hf.data.masks import SegmentationSplit
from seal_hf.utils.compat import image_processor_class

LABELS = {"id2label": {0: "background", 1: "square"}, "label2id": {"background": 0, "square": 1}}
SIZE, CROP = 16, 12  # pixels a side


def squares(count=16, size=SIZE):
    """Images with masks; some pixels do not count."""
    rng = np.random.default_rng(0)
    masks = np.zeros((count, size, size), dtype=np.uint8)
    for mask in masks:
        y, x = rng.integers(0, size - size // 2, 2)
        mask[y : y + size // 2, x : x + size // 2] = 1
    pixels = rng.normal(80, 20, (count, size, size, 3)) + 60 * masks[..., None]
    masks[::2, 0] = 255
    return SegmentationSplit(pixels.clip(0, 255).astype(np.uint8), masks)


def energy_network(**options):
    """A narrow one, with parameters that do not depend on how a transformers line draws them."""
    options = {"width": 16, **options}
    net = LossNet(LossNetConfig(space="binary_mask", energy="grid", num_labels=2, energy_options=options, **LABELS))
    torch.manual_seed(7)
    net.energy.reset_parameters()
    return net


def model(crop_size=None, **options):
    """Both nets."""
    loss_net = energy_network(**options)
    task_net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(8, 8, 8), crop_size=crop_size, **LABELS))
    task_net.apply(task_net._init_weights)
    return SealForSegmentation(task_net, loss_net)


def saved_segformer(folder, labels=LABELS):
    """A tiny one with random weights, and its image processor; the folder."""
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[8, 8, 8, 8], decoder_hidden_size=16, depths=[1] * 4, num_attention_heads=[1] * 4)
    SegformerForSemanticSegmentation(SegformerConfig(**sizes, **labels)).save_pretrained(folder)
    image_processor_class()(do_resize=False, do_normalize=True, do_reduce_labels=False).save_pretrained(folder)
    return folder


def make(folder, nets=None, rows=None, callbacks=None, batch=8, **options):
    nets = nets or model()
    rows = rows if rows is not None else MaskRows(squares(), CROP)
    options = dict(num_samples=2, num_train_epochs=2, logging_steps=1, pixel_loss="mean", energy_weight=0.1) | options
    options = dict(loss_net_learning_rate=1e-3) | options
    args = arguments(folder, batch=batch, **options)
    trainer = SealTrainer(nets, args, train_dataset=rows, eval_dataset=rows, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    return trainer, nets


def pixel_loss(nets, rows):
    """Mean cross-entropy of the task-net over the pixels that count, by definition."""
    batch = rows.batch(range(len(rows)))
    with torch.no_grad():
        logits = nets.task_net.eval()(pixel_values=batch["pixel_values"]).logits
    logits = F.interpolate(logits, batch["labels"].shape[1:], mode="bilinear")
    return F.cross_entropy(logits, batch["labels"], ignore_index=255).item()
