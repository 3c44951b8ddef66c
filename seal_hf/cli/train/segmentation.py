"""Binary segmentation with an energy network as a loss function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import AutoImageProcessor, set_seed

from ...data import MaskDataArguments, SegmentationData, load_masks
from ...data.tensors.crops import CROP_SIZE, MaskRows, NewCrops, check_scaling, pixel_scaling, resize_to
from ...metrics import mask_compute_metrics
from ...models import SealForSegmentation
from ...nets.fcn import fcn_image_processor, set_test_crops
from ...reports import check_picture, close_masks
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class ModelArguments:
    """The nets, and the crops that they learn from."""

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
        metadata={"help": "Where these begin, in both directions; default: as the papers, 0 2 3 4 6 8, if they fit."},
    )
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})
    picture: int = field(default=0, metadata={"help": "Draw so many test images, truth and prediction (matplotlib)."})


ARGUMENTS = (MaskDataArguments, ModelArguments, SealTrainingArguments)


def build(
    data: SegmentationData, model_args: ModelArguments, args: SealTrainingArguments
) -> tuple[SealForSegmentation, Any]:
    """Both nets, and the image processor that is saved with them."""
    crop = CROP_SIZE if model_args.crop_size is None else model_args.crop_size or None
    name = model_args.model_name_or_path
    model = SealForSegmentation.for_data(data, name, loss_net_encoder=args.loss_net_encoder, crop_size=crop)
    processor = fcn_image_processor() if name is None else AutoImageProcessor.from_pretrained(name)
    resize_to(processor, data.image_size)
    take_loss_net(model, model_args.loss_net_path, args)
    check_was_trained(model.loss_net, args)
    if model_args.loss_net_path is not None:
        check_scaling(model_args.loss_net_path, processor)
    return model, processor


def main(argv: list[str] | None = None) -> dict[str, float]:
    default_recipe = lambda given: packaged_recipe("segmentation")  # noqa: E731
    data_args, model_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=default_recipe)
    check_flags(args, argv, "binary_mask")
    check_picture(model_args.picture)
    set_seed(args.seed)
    data = load_masks(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    model, processor = build(data, model_args, args)
    scaling = pixel_scaling(processor)
    given, own = model_args.crop_size, getattr(model.config, "crop_size", None)
    seed = args.seed if args.data_seed is None else args.data_seed
    rows = MaskRows(data.train, own if given is None else given or None, seed, **scaling)
    set_test_crops(model.config, data.image_size, given, model_args.test_crop_size, model_args.crop_offsets)
    splits = {"eval": MaskRows(data.validation, **scaling)}
    if data.test is not None:
        splits["test"] = MaskRows(data.test, **scaling)
    trainer = SealTrainer(
        model,
        args,
        train_dataset=rows,
        eval_dataset=splits["eval"],
        compute_metrics=mask_compute_metrics,
        callbacks=[NewCrops(rows), *early_stopping(args, model_args.patience)],
        processing_class=processor,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    facts = {"dataset": data.name, "finetuned_from": model_args.model_name_or_path}
    return close_masks(trainer, splits, data, facts, picture=model_args.picture)
