"""Multi-label images with a small convolutional net or a Hugging Face model: train, choose decisions, predict. To copy.

python examples/multi_label_images.py                                        # embedded pictures of digits
python examples/multi_label_images.py path/to/photos facebook/dinov2-small   # images and a csv of names and labels
"""

import sys

from transformers import AutoImageProcessor

from seal_hf import (
    FlipAndCrop,
    ImageRows,
    SealForMultiLabel,
    SealTrainer,
    SealTrainingArguments,
    cnn_image_processor,
    load_multilabel,
)
from seal_hf.metrics import multilabel_compute_metrics

DATA = sys.argv[1] if len(sys.argv) > 1 else "digit_images"
MODEL = sys.argv[2] if len(sys.argv) > 2 else None
OUTPUT = sys.argv[3] if len(sys.argv) > 3 else "outputs/multi_label_images"


def main() -> None:
    data = load_multilabel(DATA)
    print(*data.notes, sep="\n")  # what was found, and what was done about it
    processor = cnn_image_processor((16, 36)) if MODEL is None else AutoImageProcessor.from_pretrained(MODEL)
    augment = None if MODEL is None else FlipAndCrop()  # a mirrored digit is another one
    train, validation = ImageRows(data.train, processor, augment), ImageRows(data.validation, processor)
    model = SealForMultiLabel.for_data(data, MODEL, loss_net_encoder="shared")
    args = SealTrainingArguments(
        OUTPUT,
        energy_loss="nce",  # "ce" trains without a loss-net: the baseline
        learning_rate=2e-3 if MODEL is None else 5e-5,
        per_device_train_batch_size=32,
        num_train_epochs=12 if MODEL is None else 5,
        max_grad_norm=10.0,  # the loss is a sum over labels
        logging_steps=50,
        eval_strategy="epoch",  # evaluation chooses the weight of the energy
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1_example_tuned",
        report_to="none",
    )
    rows = {"train_dataset": train, "eval_dataset": validation, "compute_metrics": multilabel_compute_metrics}
    trainer = SealTrainer(model, args, processing_class=processor, **rows)
    trainer.train()
    trainer.fit_decisions()  # choose on validation rows how probabilities become labels
    trainer.save_model(f"{OUTPUT}/final")  # a plain Hugging Face model; the loss-net is in _loss_net/

    saved = SealForMultiLabel.from_pretrained(f"{OUTPUT}/final", with_loss_net=False)
    split = data.validation if data.test is None else data.test
    _, decisions = saved.predict(split[:3]["image"])
    for decided in decisions:
        print([name for name, yes in zip(data.label_names, decided, strict=True) if yes])


if __name__ == "__main__":
    main()
