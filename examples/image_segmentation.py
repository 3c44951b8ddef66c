"""Masks of images with a small FCN or a Hugging Face model, and an energy. A script to copy and change.

python examples/image_segmentation.py                                     # embedded digits among clutter, an FCN
python examples/image_segmentation.py digit_classes                       # a class for each digit
python examples/image_segmentation.py path/to/folder nvidia/mit-b0        # images/ and masks/, a segmentation model
"""

import sys

from transformers import AutoImageProcessor

from seal_hf import (
    MaskRows,
    SealForSegmentation,
    SealTrainer,
    SealTrainingArguments,
    fcn_image_processor,
    load_masks,
    pixel_scaling,
    resize_to,
)
from seal_hf.metrics import mask_compute_metrics

DATA = sys.argv[1] if len(sys.argv) > 1 else "digits"
MODEL = sys.argv[2] if len(sys.argv) > 2 else None
OUTPUT = sys.argv[3] if len(sys.argv) > 3 else "outputs/image_segmentation"
CROP = 24  # side of the random training crops, in pixels


def main() -> None:
    data = load_masks(DATA)
    processor = fcn_image_processor() if MODEL is None else AutoImageProcessor.from_pretrained(MODEL)
    processor = resize_to(processor, data.image_size)
    scaling = pixel_scaling(processor)  # pixels as this model reads them
    crop = min(CROP, *data.image_size)  # the embedded images with classes are smaller
    train, validation = MaskRows(data.train, crop, **scaling), MaskRows(data.validation, **scaling)
    model = SealForSegmentation.for_data(data, MODEL, crop_size=None)  # it predicts whole images
    args = SealTrainingArguments(
        OUTPUT,
        energy_loss="regression",  # the loss-net learns the IoU of the task-net's output
        pixel_loss="mean",  # cross-entropy is a mean over pixels
        learning_rate=2e-3 if MODEL is None else 6e-5,
        num_train_epochs=10,
        logging_steps=50,
        eval_strategy="epoch",  # evaluation chooses the weight of the energy
        report_to="none",
    )
    trainer = SealTrainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=validation,
        compute_metrics=mask_compute_metrics,
        processing_class=processor,
        decode_predictions=len(data.label_names) > 2,  # of several classes: an id for each pixel, not the logits
    )
    trainer.train()
    trainer.fit_decisions()  # of two classes: the threshold of a pixel
    trainer.save_model(f"{OUTPUT}/final")
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
