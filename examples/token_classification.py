"""Tags of words, such as entities, with an encoder or a BiLSTM, a CRF and an energy. A script to copy and change.

python examples/token_classification.py                                          # embedded sentences, a BiLSTM
python examples/token_classification.py path/to/conll distilbert-base-uncased    # columns of words and tags
"""

import sys

from transformers import AutoTokenizer

from seal_hf import (
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    Vocabulary,
    encode_words,
    load_tags,
    tokenize_words,
)
from seal_hf.metrics import tagging_compute_metrics

DATA = sys.argv[1] if len(sys.argv) > 1 else "toy_tags"
ENCODER = sys.argv[2] if len(sys.argv) > 2 else None
OUTPUT = sys.argv[3] if len(sys.argv) > 3 else "outputs/token_classification"


def main() -> None:
    data = load_tags(DATA)
    if ENCODER is None:
        reader = Vocabulary.from_data(data.train, data.other_splits)
        train, validation = (encode_words(split, reader) for split in (data.train, data.validation))
        model = SealForTokenClassification.for_data(data, vocabulary=reader, energy="chain")
    else:
        reader = AutoTokenizer.from_pretrained(ENCODER)
        train, validation = (tokenize_words(split, reader) for split in (data.train, data.validation))
        model = SealForTokenClassification.for_data(data, ENCODER, loss_net_encoder="shared", energy="chain")

    args = SealTrainingArguments(
        OUTPUT,
        energy_loss="nce",  # "ce" with task_loss="crf", and for_data(crf=True): a CRF
        loss_net_encoder="separate" if ENCODER is None else "shared",
        learning_rate=5e-3 if ENCODER is None else 2e-4,
        max_grad_norm=10.0 if ENCODER is None else 1.0,
        num_train_epochs=10 if ENCODER is None else 5,
        logging_steps=50,
        eval_strategy="epoch",  # evaluation chooses the weight of the energy
        report_to="none",
    )
    trainer = SealTrainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=validation,
        compute_metrics=tagging_compute_metrics(data.label_names, data.kind),
        decode_predictions=True,  # evaluation keeps tags, not logits
        processing_class=reader,
    )
    trainer.train()
    trainer.fit_decisions()  # free, or within the tags' scheme
    trainer.save_model(f"{OUTPUT}/final")
    print(trainer.evaluate())

    saved = SealForTokenClassification.from_pretrained(f"{OUTPUT}/final", with_loss_net=False)
    words = data.validation["words"][0]
    _, tags = saved.predict([words])
    print(list(zip(words, tags[0], strict=True)))


if __name__ == "__main__":
    main()
