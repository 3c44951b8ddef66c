"""Evaluation by length: fewer padded positions, the same results in the same order."""

import numpy as np
import pytest
import tiny_tags
import torch
from tiny_models import tiny_arguments

from seal_hf.data.tensors.collators import collate_rows, longest_first, put_back


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bert")


def recorded(trainer):
    """(rows, longest row) of every batch that the task-net sees."""
    seen = []
    hook = lambda module, args, inputs: seen.append(tuple(inputs["input_ids"].shape[:2]))  # noqa: E731
    trainer.model.register_forward_pre_hook(hook, with_kwargs=True)
    return seen


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
def test_results_are_those_of_single_rows_in_their_own_order(tmp_path, folder, kind):
    both, rows = tiny_tags.nets(kind, folder)
    given = []

    def compute_metrics(found):
        given.append((found.predictions, found.label_ids))
        return {}

    trainer = tiny_tags.trainer(tmp_path, both, rows, per_device_eval_batch_size=8, energy_loss="ce")
    trainer.compute_metrics = compute_metrics
    seen = recorded(trainer)
    output = trainer.predict(rows)
    assert trainer.compute_metrics is compute_metrics
    (predictions, labels), width = given[0], output.label_ids.shape[1]
    assert np.array_equal(predictions, output.predictions) and np.array_equal(labels, output.label_ids)
    both.task_net.eval()
    for i in range(len(rows)):
        single = rows.batch([i])
        wanted = single.pop("labels")[0]
        assert np.array_equal(labels[i], torch.nn.functional.pad(wanted, (0, width - len(wanted)), value=-100))
        with torch.no_grad():
            logits = both.task_net(**single).logits[0].numpy()
        counts = wanted.numpy() != -100
        np.testing.assert_allclose(predictions[i, : len(wanted)][counts], logits[counts], atol=1e-5)
    lengths = sorted((len(rows.batch([i])["labels"][0]) for i in range(len(rows))), reverse=True)
    assert [longest for _, longest in seen[:4]] == lengths[::8]  # as little padding as there can be
    trainer.eval_dataset = rows
    for loader in (trainer.get_eval_dataloader(), trainer.get_test_dataloader(rows)):  # a user's own loop
        own = [row[row != -100].tolist() for batch in loader for row in batch["labels"]]
        assert own == [(labels := rows.batch([i])["labels"][0])[labels != -100].tolist() for i in range(len(rows))]


@pytest.mark.parametrize("option", ["batch_eval_metrics", "eval_do_concat_batches"])
def test_where_the_order_is_seen_it_is_that_of_the_rows(tmp_path, folder, option):
    both, rows = tiny_tags.nets("bilstm", folder)
    options = {option: option != "eval_do_concat_batches", "per_device_eval_batch_size": 10, "energy_loss": "ce"}
    trainer = tiny_tags.trainer(tmp_path, both, rows, **options)
    trainer.compute_metrics = (lambda found, compute_result: {}) if option == "batch_eval_metrics" else None
    seen = recorded(trainer)
    trainer.predict(rows)
    expected = [rows.batch(list(range(i, min(i + 10, len(rows)))))["labels"].shape for i in range(0, len(rows), 10)]
    assert seen == [tuple(shape) for shape in expected]


def test_order_is_of_what_is_padded_alone():
    rows = tiny_tags.encode_words(tiny_tags.sentences(), tiny_tags.Vocabulary.from_data(tiny_tags.sentences()))
    order = longest_first(rows)
    lengths = [len(words) for words in tiny_tags.sentences()["words"][:]]
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    assert longest_first(tiny_tags.sentences()) is None
    values = np.arange(len(order))[:, None] * [1, 10]
    nested = {"a": (values[order], None)}
    assert np.array_equal(put_back(nested, order)["a"][0], values) and put_back(nested, order)["a"][1] is None


def test_rows_of_a_loader_in_another_order_stay_in_that(tmp_path, folder):
    """A subclass' own loader, as it is."""
    both, rows = tiny_tags.nets("bilstm", folder)
    trainer = tiny_tags.trainer(tmp_path, both, rows, per_device_eval_batch_size=8, energy_loss="ce")
    expected = trainer.predict(rows)
    loader = torch.utils.data.DataLoader(rows, batch_size=8, collate_fn=collate_rows)
    found = trainer.evaluation_loop(trainer.accelerator.prepare(loader), "own")
    assert np.array_equal(found.label_ids, expected.label_ids)
    counts = expected.label_ids != -100
    np.testing.assert_allclose(found.predictions[counts], expected.predictions[counts], atol=1e-5)


def test_rows_are_grouped_by_length_in_training(tmp_path, folder):
    both, rows = tiny_tags.nets("bilstm", folder)
    old = "group_by_length" in vars(tiny_arguments(tmp_path))  # of transformers 4
    option = dict(group_by_length=True) if old else dict(train_sampling_strategy="group_by_length")
    trainer = tiny_tags.trainer(tmp_path, both, rows, max_steps=2, **option)
    trainer.processing_class = tiny_tags.Vocabulary.from_data(tiny_tags.sentences())
    trainer.train()
    assert trainer.state.global_step == 2
