"""Rows that no collator pads are refused at the start; a run with the collator that the message names is the oracle."""

import pytest
import tiny_masks
import torch
from datasets import Dataset
from tiny_models import tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    default_data_collator,
)

from seal_hf import SealTrainer

LENGTHS = [3, 5, 4, 7]


def tagged():
    """Tokenized sentences as a user has them, of 3 to 7 tokens."""
    return Dataset.from_dict({name: [[1] * n for n in LENGTHS] for name in ("input_ids", "attention_mask", "labels")})


def tagger(folder, rows, train_batch=4, **options):
    arguments = tiny_arguments(folder, max_steps=1, per_device_train_batch_size=train_batch)
    net = AutoModelForTokenClassification.from_config(
        tiny_config("bert", num_labels=3, id2label=dict(enumerate("OBI")))
    )
    return SealTrainer(net, arguments, train_dataset=rows, **options)


@pytest.mark.parametrize("kind", ["data set", "list", "dictionary"])
def test_tags_without_a_padding_collator_are_refused_with_what_to_pass(kind, tmp_path):
    rows = tagged() if kind != "list" else [dict(row) for row in tagged()]
    found = "`labels` of `train_dataset` has rows of different lengths, from 3 to 7, which {} does not pad. Pass "
    found += r"data_collator=DataCollatorForTokenClassification\(tokenizer\)"
    for options, name in (
        ({}, "transformers' default collator"),
        ({"data_collator": default_data_collator}, "transformers' default collator"),
        ({"processing_class": tiny_tokenizer()}, "DataCollatorWithPadding"),
    ):
        with pytest.raises(ValueError, match=found.format(name)):
            tagger(tmp_path, rows, **options)
    collator = DataCollatorForTokenClassification(tiny_tokenizer())
    tagger(tmp_path, rows, data_collator=collator).train()
    tagger(tmp_path, rows, train_batch=1).train()  # rows that never meet
    if kind == "dictionary":
        with pytest.raises(ValueError, match=r"`labels` of `eval_dataset\['hard'\]` has rows of different lengths"):
            tagger(tmp_path, rows.select([1, 1]), eval_dataset={"hard": rows})


def test_texts_without_a_padding_collator_are_refused_with_what_to_pass(tmp_path):
    tokenizer = tiny_tokenizer()
    rows = tiny_texts(4).map(lambda row: dict(tokenizer(row["text"])), remove_columns="text")
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    arguments = tiny_arguments(tmp_path, max_steps=1)
    with pytest.raises(ValueError, match="`input_ids` of `train_dataset` .* Pass processing_class=tokenizer, or data_"):
        SealTrainer(net, arguments, train_dataset=rows)
    for options in ({"processing_class": tokenizer}, {"data_collator": DataCollatorWithPadding(tokenizer)}):
        SealTrainer(net, arguments, train_dataset=rows, **options).train()


def test_texts_that_are_not_tokenized_are_refused_with_what_to_call(tmp_path):
    tokenizer, texts = tiny_tokenizer(), tiny_texts(4)
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    arguments = tiny_arguments(tmp_path, max_steps=1, remove_unused_columns=False)
    for options in ({}, {"processing_class": tokenizer}):
        with pytest.raises(ValueError, match=r"column `text`, but not `input_ids`.* tokenize\(data.train, tokenizer\)"):
            SealTrainer(net, arguments, train_dataset=texts, **options)

    def collate(rows):
        encoded = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        return {**encoded, "labels": torch.tensor([row["labels"] for row in rows]).float()}

    SealTrainer(net, arguments, train_dataset=texts, data_collator=collate).train()
    transformed = texts.with_transform(lambda rows: {**tokenizer(rows["text"]), "labels": rows["labels"]})
    SealTrainer(net, arguments, train_dataset=transformed, processing_class=tokenizer).train()


class Own(torch.utils.data.Dataset):
    """Rows of a user's own class: nothing tells their labels before a batch."""

    def __init__(self, labels, **inputs):
        self.row = {"labels": torch.tensor(labels), **inputs}

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return dict(self.row)


class OneWrong(Own):
    """A row behind the first thousand has other labels."""

    def __init__(self, labels, wrong, **inputs):
        super().__init__(labels, **inputs)
        self.wrong = torch.tensor(wrong)

    def __len__(self):
        return 1010

    def __getitem__(self, i):
        return {**self.row, "labels": self.wrong if i == 1005 else self.row["labels"]}


def test_a_later_row_of_ones_own_data_set_is_named(tmp_path):
    """More rows than are looked at before a run; for label sets and tags, in training and in an evaluation."""
    words = {name: torch.ones(3, dtype=torch.long) for name in ("input_ids", "attention_mask")}
    texts = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    tags = AutoModelForTokenClassification.from_config(tiny_config("bert"))
    for net, right, wrong, message in (
        (texts, [0, 1, 1, 0], [0, 2, 1, 0], "holds 2; expected 0 or 1"),
        (tags, [0, 1, -100], [0, 9, 1], "holds 9, but there are 4 tags"),
    ):
        options = {"per_device_train_batch_size": 512, "per_device_eval_batch_size": 512, "energy_loss": "ce"}
        arguments = tiny_arguments(tmp_path, max_steps=3, remove_unused_columns=False, **options)
        own = {"train_dataset": OneWrong(right, wrong, **words)}
        with pytest.raises(ValueError, match=rf"`labels` of `train_dataset\[1005\]` {message}"):
            SealTrainer(net, arguments, **own).train()
        own = {"train_dataset": Own(right, **words), "eval_dataset": OneWrong(right, wrong, **words)}
        trainer = SealTrainer(net, arguments, **own)
        with pytest.raises(ValueError, match=rf"`labels` of `eval_dataset\[1005\]` {message}"):
            trainer.evaluate()


def test_labels_of_ones_own_data_set_are_checked(tmp_path):
    words = {name: torch.ones(3, dtype=torch.long) for name in ("input_ids", "attention_mask")}
    pixels = {"pixel_values": torch.zeros(3, 8, 8)}
    texts = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    for net, inputs, wrong, right, message in (
        (texts, words, [0, 2, 1, 0], [0, -1, 1, 0], "holds 2; expected 0 or 1 for each label"),
        (tiny_masks.model(), pixels, [[-100, 1] * 4] * 8, [[255, 1] * 4] * 8, "holds -100, but the masks have 2 cl"),
    ):
        arguments = tiny_arguments(tmp_path, max_steps=1, remove_unused_columns=False)
        with pytest.raises(ValueError, match=rf"`labels` of `train_dataset\[0\]` {message}"):
            SealTrainer(net, arguments, train_dataset=Own(wrong, **inputs)).train()
        SealTrainer(net, arguments, train_dataset=Own(right, **inputs)).train()


class Row(Own):
    """Rows as a user's class gives them, whatever the labels."""

    def __init__(self, **row):
        self.row = row


@pytest.mark.parametrize(
    "labels, message",
    [
        (["refund"], r"`labels` of `train_dataset` holds \['refund'\], but must hold numbers"),
        ("refund", "`labels` of `train_dataset` holds 'refund', but must hold numbers"),
        ({1, 2}, r"`labels` of `train_dataset` holds \{1, 2\}, but must hold numbers"),
        (None, "`labels` of `train_dataset` holds None, but must hold numbers"),
    ],
)
@pytest.mark.parametrize("pads", [True, False], ids=["pads", "stacks"])
def test_labels_that_cannot_be_stacked_are_named(labels, message, pads, tmp_path):
    """A collator of transformers drops them, or says only that a tensor cannot be made."""
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    rows, tokenizer = Row(input_ids=[1, 2], attention_mask=[1, 1], labels=labels), tiny_tokenizer() if pads else None
    trainer = SealTrainer(net, tiny_arguments(tmp_path, max_steps=1), train_dataset=rows, processing_class=tokenizer)
    with pytest.raises(ValueError, match=message):
        trainer.train()


class Ids(Row):
    """Ids of labels, of which rows have different numbers."""

    def __getitem__(self, i):
        return {**self.row, "labels": [*range(i)]}


def test_ids_of_labels_and_other_names_of_ones_own_data_set_are_named(tmp_path):
    net, words = AutoModelForSequenceClassification.from_config(tiny_config("bert")), {"input_ids": [1, 2]}
    for rows, message in (
        (Ids(**words), "expected 4, one 0 or 1 for each label .* Ids of labels must be written as such a vector"),
        (Row(**words, targets=[0.0] * 4), "A row of `train_dataset` has no `labels`; it has input_ids"),
        (Row(ids=[1, 2], targets=[0.0] * 4), "has no `labels`; it has nothing that the task-net reads"),
    ):
        options = {"train_dataset": rows, "processing_class": tiny_tokenizer()}
        with pytest.raises(ValueError, match=message):
            SealTrainer(net, tiny_arguments(tmp_path, max_steps=1), **options).train()


def test_a_transform_of_ones_own_makes_the_labels(tmp_path):
    """As in the tutorials of transformers: the columns of the table are not those of a batch. A plain table with the
    same rows is the oracle."""
    tokenizer, texts = tiny_tokenizer(), tiny_texts(4)
    plain = texts.map(lambda row: dict(tokenizer(row["text"])), remove_columns="text")
    named = texts.map(lambda row: {"labels": [f"label {i}" for i, on in enumerate(row["labels"]) if on]})

    def encode(rows, column, read):
        return {**tokenizer(rows["text"]), "labels": [read(labels) for labels in rows[column]]}

    several = {
        "named": named.with_transform(
            lambda rows: encode(rows, "labels", lambda names: [float(f"label {i}" in names) for i in range(4)])
        ),
        "renamed": texts.rename_column("labels", "gold").with_transform(lambda rows: encode(rows, "gold", list)),
    }
    figures = []
    for rows in (plain, *several.values()):
        torch.manual_seed(0)
        net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
        arguments = tiny_arguments(tmp_path, max_steps=2, remove_unused_columns=False)
        options = {"train_dataset": rows, "eval_dataset": rows, "processing_class": tokenizer}
        trainer = SealTrainer(net, arguments, **options)
        figures.append((trainer.train().training_loss, trainer.evaluate()["eval_loss"]))
        trainer.fit_decisions()
    assert figures[0] == figures[1] == figures[2]


def test_decisions_are_fitted_after_training_on_a_stream(tmp_path):
    """The label sets of its rows are not at hand: the decoders that need them are left out."""
    tokenizer = tiny_tokenizer()
    rows = tiny_texts(4).map(lambda row: dict(tokenizer(row["text"])), remove_columns="text")
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    options = {"train_dataset": rows.to_iterable_dataset(), "eval_dataset": rows, "processing_class": tokenizer}
    trainer = SealTrainer(net, tiny_arguments(tmp_path, max_steps=1), **options)
    trainer.train()
    names = trainer.fit_decisions().names
    assert "calibrated_f1" in names and "seen" not in names
