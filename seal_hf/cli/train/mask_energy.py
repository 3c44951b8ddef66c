"""An energy network of masks on its own: trained on crops, predicting by gradient-based inference on crops."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import AutoImageProcessor, AutoModelForSemanticSegmentation, set_seed

from ...data import MaskDataArguments, load_masks
from ...data.tensors.crops import CROP_SIZE, MaskRows, NewCrops, crop_offsets, pixel_scaling
from ...metrics import mask_compute_metrics
from ...models import SealForSegmentation
from ...nets.fcn import fcn_image_processor
from ...reports import check_picture, close_masks
from ...training.energy_arguments import EnergyTrainingArguments
from ...training.energy_trainer import MaskEnergyTrainer
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class ModelArguments:
    """The crops, and the task-net that inference may start from."""

    task_net_path: str | None = field(
        default=None, metadata={"help": "Folder of a task-net, saved by run_segmentation.py --loss ce."}
    )
    crop_size: int = field(default=CROP_SIZE, metadata={"help": "Pixels a side of the crops; 0: whole images."})
    crop_offsets: list[int] | None = field(
        default=None,
        metadata={"help": "Where crops begin at evaluation, in both directions; default: as few as cover the image."},
    )
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})
    picture: int = field(default=0, metadata={"help": "Draw so many test images, truth and prediction (matplotlib)."})


ARGUMENTS = (MaskDataArguments, ModelArguments, EnergyTrainingArguments)


def main(argv: list[str] | None = None) -> dict[str, float]:
    default_recipe = lambda given: packaged_recipe("mask_energy")  # noqa: E731
    data_args, model_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=default_recipe)
    check_flags(args, argv, "binary_mask")
    check_picture(model_args.picture)
    set_seed(args.seed)
    data = load_masks(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    crop, offsets = model_args.crop_size or None, model_args.crop_offsets or 1  # an inference for each crop
    if crop is not None:
        for side in data.image_size:
            crop_offsets(side, crop, offsets)  # fails where they do not fit
    network, path = SealForSegmentation.for_data(data).loss_net, model_args.task_net_path
    processor = AutoImageProcessor.from_pretrained(path) if path else fcn_image_processor()
    scaling = pixel_scaling(processor)
    seed = args.seed if args.data_seed is None else args.data_seed
    rows = MaskRows(data.train, crop, seed, **scaling)
    splits = {"eval": MaskRows(data.validation, **scaling)}
    if data.test is not None:
        splits["test"] = MaskRows(data.test, **scaling)
    trainer = MaskEnergyTrainer(
        network,
        args,
        train_dataset=rows,
        eval_dataset=splits["eval"],
        task_net=AutoModelForSemanticSegmentation.from_pretrained(path, use_safetensors=True) if path else None,
        compute_metrics=mask_compute_metrics,
        callbacks=[NewCrops(rows), *early_stopping(args, model_args.patience)],
        processing_class=processor,
        crop_size=crop,
        crop_offsets=offsets,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    return close_masks(trainer, splits, data, picture=model_args.picture)
