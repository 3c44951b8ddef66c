"""Few tagged sentences, and rules that score the tags of the others. A script to copy and change.

python examples/few_labels.py                                 # embedded sentences, 20 of them tagged
"""

import sys

from seal_hf import (
    RewardTagSpace,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    TagFunctionReward,
    Vocabulary,
    encode_words,
    load_tags,
    reward_rows,
)
from seal_hf.metrics import tagging_compute_metrics

DATA = sys.argv[1] if len(sys.argv) > 1 else "toy_tags"
OUTPUT = sys.argv[2] if len(sys.argv) > 2 else "outputs/few_labels"


def begins_well(words: list[str], tags: list[str]) -> float:
    """What good tags look like: every span begins with B-. In [0, 1], 1 is best."""
    starts = [tag for before, tag in zip(["O", *tags], tags, strict=False) if tag != "O" and before == "O"]
    return sum(tag.startswith("B-") for tag in starts) / len(starts) if starts else 0.0


def main() -> None:
    data = load_tags(DATA, num_labelled=20)  # data.train has 20 rows, data.unlabelled the others
    vocabulary = Vocabulary.from_data(data.train, data.other_splits)
    model = SealForTokenClassification.for_data(data, vocabulary=vocabulary)
    reward = TagFunctionReward(begins_well, data.label_names)  # or TagRuleReward("rules.yaml", data.label_names)
    rows = reward_rows(data, lambda split: encode_words(split, vocabulary), reward, repeat_labelled=4)
    args = SealTrainingArguments(
        OUTPUT,
        energy_loss="contrastive_divergence",  # the loss-net learns from gold tags and from rewards
        task_weight=1 / rows.gold_share,  # makes the task loss a mean over rows with gold
        learning_rate=2e-3,
        num_train_epochs=5,
        logging_steps=50,
        report_to="none",
    )
    trainer = SealTrainer(
        model,
        args,
        train_dataset=rows,
        eval_dataset=encode_words(data.validation, vocabulary),
        space=RewardTagSpace.from_arguments(args, model.task_net, reward),
        compute_metrics=tagging_compute_metrics(data.label_names, data.kind),
        decode_predictions=True,
        processing_class=vocabulary,
    )
    trainer.train()
    trainer.save_model(f"{OUTPUT}/final")
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
