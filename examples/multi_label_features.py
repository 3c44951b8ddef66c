"""Multi-label classification of feature vectors with a small MLP: cross-entropy beside an energy. A script to copy.

python examples/multi_label_features.py                       # embedded digits
python examples/multi_label_features.py path/to/bibtex        # a folder of Mulan or Clus ARFF files
"""

import sys

from transformers import set_seed

from seal_hf import (
    SealForMultiLabel,
    SealTrainer,
    SealTrainingArguments,
    TensorRows,
    average_with_regression,
    load_multilabel,
)
from seal_hf.metrics import multilabel_compute_metrics

DATA = sys.argv[1] if len(sys.argv) > 1 else "digits"
OUTPUT = sys.argv[2] if len(sys.argv) > 2 else "outputs/multi_label_features"


def train(loss: str) -> dict[str, float]:
    """The test figures of one loss, `ce` being cross-entropy without a loss-net."""
    set_seed(1)
    data = load_multilabel(DATA)
    model = SealForMultiLabel.for_data(data, hidden_size=400, dropout=0.5)  # the MLP, and its loss-net
    args = SealTrainingArguments(
        f"{OUTPUT}/{loss}",
        energy_loss=loss,
        learning_rate=1e-3,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=512,
        max_grad_norm=10.0,  # the loss is a sum over labels
        num_train_epochs=30,
        logging_steps=100,
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
        train_dataset=TensorRows(data.train),  # whole batches as tensors: no Python work per row
        eval_dataset=TensorRows(data.validation),
        compute_metrics=multilabel_compute_metrics,
    )
    trainer.train()
    average_with_regression(trainer)  # as the command does: the net and a logistic regression, unless validation loses
    trainer.fit_decisions()
    trainer.save_model(f"{OUTPUT}/{loss}/final")
    return trainer.evaluate(TensorRows(data.validation if data.test is None else data.test), metric_key_prefix="test")


def main() -> None:
    for loss in ("ce", "nce"):
        figures = train(loss)
        print(f"{loss}: example F1 {figures['test_f1_example']:.4f} at 0.5")


if __name__ == "__main__":
    main()
