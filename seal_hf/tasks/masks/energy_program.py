"""An energy network of masks on its own: it trains on crops and predicts by gradient-based inference on crops."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import AutoModelForSemanticSegmentation

from ...cli.train.arguments import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...cli.tuning.ranges import ENERGY_RATES
from ...data import MaskDataArguments, SegmentationData, load_masks
from ...data.tensors.crops import CROP_SIZE, MaskRows, crop_offsets, pixel_scaling
from ...data.tensors.images import load_image_processor
from ...reports.common import Ending
from ...training.energy_methods import EnergyTrainingArguments
from ...training.energy_trainer import MaskEnergyTrainer
from ...utils.gate import load_net
from .fcn import fcn_image_processor
from .metrics import mask_compute_metrics
from .model import SealForSegmentation
from .report import mask_ending


@dataclass
class ModelArguments(OriginArguments):
    """The crops, and the task-net that inference may start from."""

    task_net_path: str | None = field(
        default=None, metadata={"help": "Folder of a task-net, saved by seal-hf train segmentation --loss ce."}
    )
    crop_size: int = field(default=CROP_SIZE, metadata={"help": "Side of the crops in pixels; 0: whole images."})
    crop_offsets: list[int] | None = field(
        default=None,
        metadata={"help": "Where crops begin at evaluation, in both directions; default: fewest that cover the image."},
    )
    width: int = field(default=64, metadata={"help": "Channels of the network's first convolution (the papers: 64)."})


ARGUMENTS = (MaskDataArguments, ModelArguments, RunArguments, EnergyTrainingArguments)


def make_trainer(data: SegmentationData, arguments: Arguments) -> Prepared:
    """The trainer of a fresh network, on random crops."""
    nets, training = arguments.nets, arguments.training
    crop, offsets = nets.crop_size or None, nets.crop_offsets or 1  # an inference for each crop
    if crop is not None:
        for side in data.image_size:
            crop_offsets(side, crop, offsets)  # ValueError if they do not fit
    network = SealForSegmentation.for_data(data, energy_options={"width": nets.width}).loss_net
    path, origin = nets.task_net_path, arguments.origin(nets.task_net_path)
    processor = load_image_processor(path, **origin) if path else fcn_image_processor()
    scaling = pixel_scaling(processor)
    seed = training.seed if training.data_seed is None else training.data_seed
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


def evaluate(prepared: Prepared, data: SegmentationData, arguments: Arguments) -> Ending:
    """The figures of all splits, and how they are reported."""
    return mask_ending(prepared.trainer, prepared.splits, data)


PROGRAM = Program(
    ARGUMENTS,
    task="masks",
    metric="mean_iou",
    recipes={"masks": "mask_energy"},
    loader=load_masks,
    ranges=lambda arguments: ENERGY_RATES,
    make_trainer=make_trainer,
    evaluate=evaluate,
)
main = PROGRAM.main
