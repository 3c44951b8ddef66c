"""Multi-label text with a Hugging Face encoder: train, choose decisions, predict. A script to copy.

python examples/multi_label_text.py tickets.csv               # columns `text` and `labels`; or a folder with splits
"""

import sys

from transformers import AutoTokenizer

from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, load_multilabel, tokenize
from seal_hf.metrics import multilabel_compute_metrics

DATA = sys.argv[1]  # a CSV or JSON-lines file, a folder of them, or a Hub id
ENCODER = sys.argv[2] if len(sys.argv) > 2 else "distilbert-base-uncased"
OUTPUT = sys.argv[3] if len(sys.argv) > 3 else "outputs/multi_label_text"


def main() -> None:
    data = load_multilabel(DATA)
    print(*data.notes, sep="\n")  # what was found, and what was done about it
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    train, validation = (tokenize(split, tokenizer, max_length=128) for split in (data.train, data.validation))

    # The task-net is the encoder with a classifier. The loss-net reads the task-net's own features.
    model = SealForMultiLabel.for_data(data, ENCODER, loss_net_encoder="shared")
    args = SealTrainingArguments(
        OUTPUT,
        energy_loss="nce",  # "ce" trains without a loss-net: the baseline
        learning_rate=1e-4,
        per_device_train_batch_size=16,
        num_train_epochs=5,
        logging_steps=50,
        eval_strategy="epoch",  # evaluation chooses the weight of the energy
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1_example_tuned",
        report_to="none",
    )
    trainer = SealTrainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=validation,
        processing_class=tokenizer,
        compute_metrics=multilabel_compute_metrics,
    )
    trainer.train()
    trainer.fit_decisions()  # choose on validation rows how probabilities become labels
    trainer.save_model(f"{OUTPUT}/final")  # a plain Hugging Face model; the loss-net is in _loss_net/

    # At prediction time only the task-net runs.
    saved = SealForMultiLabel.from_pretrained(f"{OUTPUT}/final", with_loss_net=False)
    rows = data.validation if data.test is None else data.test
    probabilities, decisions = saved.predict(rows["text"][:3])
    for text, decided in zip(rows["text"][:3], decisions, strict=True):
        print(text[:60], [name for name, yes in zip(data.label_names, decided, strict=True) if yes])


if __name__ == "__main__":
    main()
