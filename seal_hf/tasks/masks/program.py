"""Segmentation into two or more classes with an energy network as a loss function; then by an energy network on its
own, which trains on crops and predicts by gradient-based inference on crops."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any

from transformers import AutoModelForSemanticSegmentation

from ...cli.search import ENERGY_RATES, FINE_TUNED, RATE, Space
from ...cli.train.flags import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program, card_facts, labelled_rows
from ...data import MaskDataArguments, SegmentationData, load_masks
from ...data.tensors.images import (
    CROP_SIZE,
    MaskRows,
    check_scaling,
    crop_offsets,
    load_image_processor,
    pixel_scaling,
    resize_to,
)
from ...reports.common import Ending
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...training.energy_trainer import EnergyTrainingArguments, MaskEnergyTrainer
from ...training.epochs import order_seed
from ...utils.gate import load_net
from .fcn import fcn_image_processor, set_test_crops
from .metrics import mask_compute_metrics
from .model import SealForSegmentation
from .report import mask_ending
from .space import MaskSpace

PRETRAINED = "pretrained"  # a model, among the kinds of data


@dataclass
class ModelArguments(OriginArguments):
    """The nets, and their training crops."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face model; default: an FCN."})
    crop_size: int | None = field(
        default=None,
        metadata={"help": "Train on random crops of this size; 0: on whole images; default: 24 for an FCN, else 0."},
    )
    test_crop_size: int | None = field(
        default=None,
        metadata={"help": "An FCN predicts by averaging over crops of this size; 0: whole images; default: crop_size."},
    )
    crop_offsets: list[int] | None = field(
        default=None,
        metadata={"help": "Where the crops begin, in both directions; default: the papers' 0 2 3 4 6 8, if they fit."},
    )
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )


ARGUMENTS = (MaskDataArguments, ModelArguments, RunArguments, SealTrainingArguments)


def ranges(arguments: Arguments) -> Space:
    """What a search varies: the rates."""
    return {"learning_rate": RATE} if arguments.nets.model_name_or_path is None else FINE_TUNED


def kind(given: Namespace) -> str:
    """The kind of net or data, which decides on the packaged recipe: a pretrained model, or else the data."""
    if given.model_name_or_path is not None:
        return PRETRAINED
    return "digit_classes" if getattr(given, "dataset", None) == "digit_classes" else "masks"


def crop_of(asked: int | None, data: SegmentationData) -> int | None:
    """The side of the crops in pixels; None for whole images. Those that nobody asked for fit into the images."""
    return min(CROP_SIZE, *data.image_size) if asked is None else asked or None


def build(data: SegmentationData, arguments: Arguments) -> tuple[SealForSegmentation, Any]:
    """The task-net and the loss-net of a run, and the image processor that is saved with them."""
    nets, training = arguments.nets, arguments.training
    crop = crop_of(nets.crop_size, data)
    name = nets.model_name_or_path
    origin = arguments.origin(name)
    model = SealForSegmentation.for_data(data, name, crop_size=crop, **arguments.loss_net, **origin)
    processor = fcn_image_processor() if name is None else load_image_processor(name, **origin)
    resize_to(processor, data.image_size)
    if hasattr(processor, "do_reduce_labels"):
        processor.do_reduce_labels = arguments.data.reduce_labels
    take_loss_net(model, nets.loss_net_path, training)
    check_was_trained(model.loss_net, training)
    if nets.loss_net_path is not None:
        check_scaling(nets.loss_net_path, processor)
    return model, processor


def make_trainer(data: SegmentationData, arguments: Arguments, train_on: Any = labelled_rows) -> Prepared:
    """The trainer of both nets, on random crops. `train_on` makes the training rows, as [`labelled_rows`]."""
    model, processor = build(data, arguments)
    nets, training, scaling = arguments.nets, arguments.training, pixel_scaling(processor)
    given, own = nets.crop_size, getattr(model.config, "crop_size", None)
    seed = order_seed(training)
    crop = own if given is None else given or None
    rows, options = train_on(data, arguments, model, lambda split: MaskRows(split, crop, seed, **scaling))
    set_test_crops(model.config, data.image_size, given, nets.test_crop_size, nets.crop_offsets)
    splits = {"eval": MaskRows(data.validation, **scaling)}
    if data.test is not None:
        splits["test"] = MaskRows(data.test, **scaling)
    trainer = SealTrainer(
        model,
        training,
        train_dataset=rows,
        eval_dataset=splits["eval"],
        compute_metrics=metrics_of(data),
        callbacks=arguments.callbacks,
        processing_class=processor,
        decode_predictions=isinstance(model.space, MaskSpace),  # an id for each pixel, not C logits
        **options,
    )
    return Prepared(trainer, splits)


def metrics_of(data: SegmentationData) -> Callable:
    """[`mask_compute_metrics`] for the data's number of classes."""
    found = partial(mask_compute_metrics, num_classes=len(data.label_names))
    return update_wrapper(found, mask_compute_metrics)


def evaluate(prepared: Prepared, data: SegmentationData, arguments: Arguments) -> Ending:
    """Judge all splits with the trained nets, and say how the figures are reported."""
    return mask_ending(prepared.trainer, prepared.splits, data, card_facts(data, arguments))


PROGRAM = Program(
    ARGUMENTS,
    task="masks",
    metric="mean_iou",
    recipes={"masks": "segmentation", "digit_classes": "segmentation_classes", PRETRAINED: "segmentation_pretrained"},
    kind=kind,
    loader=load_masks,
    ranges=ranges,
    make_trainer=make_trainer,
    evaluate=evaluate,
)
main = PROGRAM.main


# --- an energy network on its own -------------------------------------------------------------------------------------


@dataclass
class EnergyArguments(OriginArguments):
    """The crops, and the task-net that inference may start from."""

    task_net_path: str | None = field(
        default=None, metadata={"help": "Folder of a task-net, saved by seal-hf train segmentation --loss ce."}
    )
    crop_size: int | None = field(
        default=None,
        metadata={"help": f"Side of the crops in pixels; 0: whole images; default: at most {CROP_SIZE}."},
    )
    crop_offsets: list[int] | None = field(
        default=None,
        metadata={"help": "Where crops begin at evaluation, in both directions; default: fewest that cover the image."},
    )
    width: int = field(default=64, metadata={"help": "Channels of the network's first convolution (the papers: 64)."})


ENERGY_ARGUMENTS = (MaskDataArguments, EnergyArguments, RunArguments, EnergyTrainingArguments)


def make_energy_trainer(data: SegmentationData, arguments: Arguments) -> Prepared:
    """The trainer of a fresh network, on random crops."""
    nets, training = arguments.nets, arguments.training
    crop, offsets = crop_of(nets.crop_size, data), nets.crop_offsets or 1  # an inference for each crop
    if crop is not None:
        for side in data.image_size:
            crop_offsets(side, crop, offsets)  # ValueError if they do not fit
    network = SealForSegmentation.for_data(data, energy_options={"width": nets.width}).loss_net
    path, origin = nets.task_net_path, arguments.origin(nets.task_net_path)
    processor = load_image_processor(path, **origin) if path else fcn_image_processor()
    scaling = pixel_scaling(processor)
    seed = order_seed(training)
    rows = MaskRows(data.train, crop, seed, **scaling)
    splits = {"eval": MaskRows(data.validation, **scaling)}
    if data.test is not None:
        splits["test"] = MaskRows(data.test, **scaling)
    trainer = MaskEnergyTrainer(
        network,
        training,
        train_dataset=rows,
        eval_dataset=splits["eval"],
        task_net=load_net(AutoModelForSemanticSegmentation, path, **origin) if path else None,
        compute_metrics=mask_compute_metrics,
        callbacks=arguments.callbacks,
        processing_class=processor,
        crop_size=crop,
        crop_offsets=offsets,
    )
    return Prepared(trainer, splits)


def evaluate_energy(prepared: Prepared, data: SegmentationData, arguments: Arguments) -> Ending:
    """Judge all splits with the trained nets, and say how the figures are reported."""
    return mask_ending(prepared.trainer, prepared.splits, data)


ENERGY_PROGRAM = Program(
    ENERGY_ARGUMENTS,
    task="masks",
    metric="mean_iou",
    recipes={"masks": "mask_energy"},
    loader=load_masks,
    ranges=lambda arguments: ENERGY_RATES,
    make_trainer=make_energy_trainer,
    evaluate=evaluate_energy,
)
energy_main = ENERGY_PROGRAM.main
