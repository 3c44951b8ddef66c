"""Binary segmentation with an energy network as a loss function.

python examples/run_segmentation.py                                # embedded digits with clutter, under a minute
python examples/run_segmentation.py --loss ce                      # the baseline: the same trainer, no loss-net
python examples/run_segmentation.py --loss ranking --sample_coherence field --coherence_size 4
python examples/run_segmentation.py --recipe recipes/segmentation/weizmann_regression.yaml --dataset path/to/weizmann
python examples/run_segmentation.py --dataset path/to/images_and_masks --model_name_or_path nvidia/mit-b0
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from accelerate import PartialState
from transformers import AutoImageProcessor, EarlyStoppingCallback, set_seed

from seal_hf import MaskRows, NewCrops, SealForSegmentation, SealTrainer, SealTrainingArguments, load_masks
from seal_hf.checkpoints import load_loss_net
from seal_hf.fcn import fcn_image_processor
from seal_hf.mask_metrics import mask_compute_metrics
from seal_hf.mask_report import evaluate_masks, mask_table, save_picture
from seal_hf.recipes import packaged_recipe, parse_recipe
from seal_hf.report import write_results


@dataclass
class MaskArguments:
    """Data and nets."""

    dataset: str | None = field(
        default=None, metadata={"help": "Name, folder, file or Hub id; default: embedded digits."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    image_size: int | None = field(default=None, metadata={"help": "Resize images and masks to this square."})
    image_column: str | None = field(default=None, metadata={"help": "Hub: column of the images; default: found."})
    mask_column: str | None = field(default=None, metadata={"help": "Hub: column of the masks; default: found."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face model; default: an FCN."})
    crop_size: int = field(default=24, metadata={"help": "Train on random crops of this size; 0: on whole images."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})
    picture: int = field(default=0, metadata={"help": "Draw so many test images, truth and prediction (matplotlib)."})


ARGUMENTS = (MaskArguments, SealTrainingArguments)


def build(data, mask_args: MaskArguments):
    """Both nets, and the image processor that is saved with them."""
    crop = mask_args.crop_size or None
    model = SealForSegmentation.for_data(data, mask_args.model_name_or_path, crop_size=crop)
    if mask_args.loss_net_path is not None:
        model.loss_net = load_loss_net(mask_args.loss_net_path, model.task_net)
    if mask_args.model_name_or_path is None:
        return model, fcn_image_processor()
    return model, AutoImageProcessor.from_pretrained(mask_args.model_name_or_path)


def main(argv: list[str] | None = None) -> dict[str, float]:
    mask_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=lambda given: packaged_recipe("segmentation"))
    set_seed(args.seed)
    read = ("dataset", "data_dir", "image_size", "image_column", "mask_column", "max_train_rows")
    data = load_masks(**{name: getattr(mask_args, name) for name in read}, seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    model, processor = build(data, mask_args)
    pretrained = mask_args.model_name_or_path is not None
    scaling = {"mean": np.array(processor.image_mean), "std": np.array(processor.image_std)} if pretrained else {}
    rows = MaskRows(data.train, mask_args.crop_size or None, args.data_seed or args.seed, **scaling)
    splits = {"eval": MaskRows(data.validation, **scaling)}
    if data.test is not None:
        splits["test"] = MaskRows(data.test, **scaling)
    trainer = SealTrainer(
        model,
        args,
        train_dataset=rows,
        eval_dataset=splits["eval"],
        compute_metrics=mask_compute_metrics,
        callbacks=[NewCrops(rows)] + ([EarlyStoppingCallback(mask_args.patience)] if mask_args.patience else []),
        processing_class=processor,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    metrics, probabilities = evaluate_masks(trainer, splits)
    trainer.card_facts = {"metrics": metrics, "dataset": data.name, "finetuned_from": mask_args.model_name_or_path}
    trainer.save_model()
    write_results(trainer, metrics)
    trainer.create_model_card()
    if trainer.is_world_process_zero():
        folder, last = Path(args.output_dir), "test" if "test" in splits else "eval"
        for split, values in probabilities.items():
            np.savez_compressed(folder / f"predictions_{split}.npz", probabilities=values.astype(np.float16))
        if mask_args.picture:
            shown = data.test if last == "test" else data.validation
            save_picture(folder / "picture.png", shown, {"prediction": probabilities[last]}, mask_args.picture)
        print(mask_table(metrics))
    if args.push_to_hub:
        trainer.push_to_hub()
    return metrics


if __name__ == "__main__":
    try:
        main()
        PartialState().destroy_process_group()  # left open, its threads now and then abort a process that ends
    except (ValueError, OSError) as error:
        sys.exit(f"run_segmentation.py: {error}")
