"""TensorRows against the rows of the data set it was made of, one by one in Python, and against the tokenizer's own
padding."""

import datasets
import numpy as np
import pytest
import tiny_run
import torch
from datasets import Array2D, Dataset, Features, List, Value, concatenate_datasets
from tiny_models import tiny_tokenizer
from torch.utils.data import Subset

from seal_hf import SealTrainer, TensorRows, collate_rows

NUM_ROWS, TOKENS = 23, "input_ids"


def rows_of(dataset, indices, padding=None):
    """The oracle: read row by row, pad by hand to the longest row, stack."""
    rows, batch = [dataset[i] for i in indices], {}
    for name in dataset.column_names:
        values = [row[name] for row in rows]
        if name in (padding or {}):
            longest = max(len(value) for value in values)
            values = [value + [padding[name]] * (longest - len(value)) for value in values]
        kind = torch.float32 if name in ("features", "weight") else torch.int64
        batch[name] = torch.tensor(values, dtype=kind)
    return batch


def assert_equal_batches(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and torch.equal(found[name], value), name


def table():
    generator = np.random.default_rng(0)
    lengths = [0, 1, 7, *generator.integers(0, 9, NUM_ROWS - 3)]
    return Dataset.from_dict(
        {
            "features": generator.normal(size=(NUM_ROWS, 5)).astype(np.float32).tolist(),
            "labels": generator.integers(0, 2, (NUM_ROWS, 4)).tolist(),
            "weight": generator.normal(size=NUM_ROWS).astype(np.float32).tolist(),
            "row": list(range(NUM_ROWS)),
            TOKENS: [generator.integers(5, 90, length).tolist() for length in lengths],
        },
        features=Features(
            {
                "features": List(Value("float32")),
                "labels": List(Value("int64")),
                "weight": Value("float32"),
                "row": Value("int64"),
                TOKENS: List(Value("int32")),
            }
        ),
    )


def fixed_length(dataset):
    return dataset.cast_column("features", List(Value("float32"), length=5))


VIEWS = {
    "whole": lambda dataset: dataset,
    "slice": lambda dataset: dataset.select(range(4, 19)),
    "shuffled": lambda dataset: dataset.shuffle(seed=1),
    "some rows, twice": lambda dataset: dataset.select([7, 3, 3, 22, 0]),
    "joined": lambda dataset: concatenate_datasets([dataset.select(range(9, 20)), dataset.select([2, 1])]),
    "fixed length": fixed_length,
    "slice of fixed length": lambda dataset: fixed_length(dataset).select(range(4, 19)),
    "large lists": lambda dataset: dataset.cast_column(TOKENS, datasets.LargeList(Value("int64"))),
    "one row": lambda dataset: dataset.select([5]),
    "double": lambda dataset: dataset.cast_column("features", List(Value("float64"))),
    "torch format": lambda dataset: dataset.with_format("torch"),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("padding", [{TOKENS: 0}, {TOKENS: -100}])
def test_batches_are_those_of_the_rows(view, padding):
    dataset = VIEWS[view](table())
    rows, oracle = TensorRows(dataset, padding), dataset.with_format(None)
    assert len(rows) == len(dataset) and sorted(rows.column_names) == sorted(dataset.column_names)
    generator = np.random.default_rng(1)
    some = [generator.integers(0, len(dataset), size).tolist() for size in (1, 2, 6)]
    for indices in (range(len(dataset)), range(len(dataset) - 1, -1, -1), *some):
        assert_equal_batches(rows.batch(list(indices)), rows_of(oracle, indices, padding))
    one = rows[len(dataset) - 1]
    assert_equal_batches(one, {k: v[0] for k, v in rows_of(oracle, [len(dataset) - 1], padding).items()})


def test_rows_can_be_looked_at():
    rows = TensorRows(Dataset.from_dict({TOKENS: [[3, 4], [5]], "labels": [[1.0], [0.0]]}), {TOKENS: 0})
    assert repr(rows) == f"TensorRows(2 rows: labels, {TOKENS})"
    assert rows[TOKENS].tolist() == [[3, 4], [5, 0]] and rows["labels"].tolist() == [[1.0], [0.0]]
    with pytest.raises(KeyError, match=f"no column 'label'; the columns are labels, {TOKENS}"):
        rows["label"]


def test_padding_is_the_tokenizers():
    tokenizer = tiny_tokenizer()
    texts = ["good film", "bad", "a dull dull book and song", ""]
    encoded = [tokenizer(text) for text in texts]
    names = ["input_ids", "attention_mask"]
    dataset = Dataset.from_dict({name: [row[name] for row in encoded] for name in names})
    rows = TensorRows(dataset, {"input_ids": tokenizer.pad_token_id, "attention_mask": 0})
    for indices in ([0, 1, 2, 3], [3, 1], [1], [2, 0]):
        expected = tokenizer.pad([encoded[i] for i in indices], padding=True, return_tensors="pt")
        assert_equal_batches(rows.batch(indices), {name: expected[name] for name in names})


def test_equally_long_rows_of_a_padded_column_need_no_padding():
    rows = TensorRows(Dataset.from_dict({TOKENS: [[3, 4], [5, 6]]}), {TOKENS: 0})
    assert rows.batch([1, 0])[TOKENS].tolist() == [[5, 6], [3, 4]]


def test_label_ids_become_multi_hot_rows():
    ids = [[2, 0], [], [4], [1, 3, 0]]
    rows = TensorRows(Dataset.from_dict({"labels": ids, "features": [[0.0]] * 4}), multi_hot={"labels": 5})
    expected = torch.tensor([[float(j in row) for j in range(5)] for row in ids])
    assert torch.equal(rows.batch(range(4))["labels"], expected)
    assert torch.equal(rows.batch([1])["labels"], expected[1:2])
    with pytest.raises(ValueError, match=r"Column `labels` holds .* from 0 to 4; .* integers from 0 to 3\."):
        TensorRows(Dataset.from_dict({"labels": ids}), multi_hot={"labels": 4})


def test_rows_without_values_and_no_rows():
    empty_rows = TensorRows(
        Dataset.from_dict({TOKENS: [[], [], []]}, Features({TOKENS: List(Value("int64"))})), {TOKENS: 9}
    )
    assert empty_rows.batch([0, 2])[TOKENS].shape == (2, 0)
    nothing = table().select([])
    assert len(TensorRows(nothing, {TOKENS: 0})) == 0


def test_fixed_arrays_keep_their_shape():
    values = np.arange(48.0, dtype=np.float32).reshape(4, 3, 4)
    dataset = Dataset.from_dict({"x": values.tolist()}, Features({"x": Array2D((3, 4), "float32")}))
    for view, expected in ((dataset, values), (dataset.select([3, 1]), values[[3, 1]])):
        assert np.array_equal(TensorRows(view).batch([1, 0])["x"].numpy(), expected[[1, 0]])


# --- through loaders and the trainer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_gives_whole_batches(workers):
    rows = TensorRows(table(), {TOKENS: 0})
    loader = torch.utils.data.DataLoader(rows, batch_size=5, collate_fn=collate_rows, num_workers=workers)
    batches = list(loader)
    assert [len(batch["row"]) for batch in batches] == [5, 5, 5, 5, 3]
    for i, batch in enumerate(batches):
        indices = range(5 * i, min(5 * i + 5, NUM_ROWS))
        assert_equal_batches(batch, rows_of(table(), indices, {TOKENS: 0}))


@pytest.mark.parametrize("workers", [0, 1])
def test_lists_of_a_plain_data_set_train_as_tensor_rows_do(tmp_path, workers):
    """Rows of lists, collated by the Trainer, against tensors; columns that no net reads are left out of both."""
    plain = tiny_run.table(48).add_column("name", [str(i) for i in range(48)])
    fast = TensorRows(plain.remove_columns("name").add_column("row", range(48)))
    options = dict(dropout=0.3, num_train_epochs=1, dataloader_num_workers=workers)
    first, _ = tiny_run.run(tmp_path, rows=fast, **options)
    second, _ = tiny_run.run(tmp_path, rows=plain, **options)
    assert torch.equal(first, second)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, message",
    [
        (["a", "b"], "Column `x` holds object values; TensorRows takes numbers. Remove or encode it."),
        ([["a"], ["b"]], "Column `x` holds object values"),
        (
            [[1, 2], [3]],
            r"Rows of column `x` have between 1 and 2 values; give its padding value \(`padding={'x': ...}`\)",
        ),
        ([[1, 2], None], "Column `x` has missing values"),
        ([[1, None], [2, 3]], "Column `x` has missing values or nested lists"),
        ([1, None], "Column `x` has missing values; TensorRows takes numbers"),
        ([1.0, None], "Column `x` has missing values; TensorRows takes numbers"),
        ([[[1], [2]], [[3], [4]]], "Column `x` has missing values or nested lists"),
    ],
)
def test_columns_that_are_not_numbers_are_refused_by_name(column, message):
    with pytest.raises(ValueError, match=message):
        TensorRows(Dataset.from_dict({"labels": [0, 1], "x": column}))


def test_a_nan_is_a_value_and_kept():
    """Whether it is allowed is the loader's business: a missing number is refused, one that is not a number is seen."""
    rows = TensorRows(Dataset.from_dict({"x": np.array([[1.0, np.nan], [2.0, np.inf]])}))
    assert rows.batch([0, 1])["x"].isnan().tolist() == [[False, True], [False, False]]


def test_each_data_set_of_a_trainer_is_collated_as_it_is(tmp_path):
    trainer, nets = tiny_run.make(tmp_path, "ce", num_train_epochs=1)
    table = tiny_run.table(40)
    assert trainer.evaluate(table)["eval_loss"] == pytest.approx(trainer.evaluate(TensorRows(table))["eval_loss"])
    trainer.train()  # on TensorRows, after single rows
    bare = SealTrainer(nets, tiny_run.arguments(tmp_path / "bare"))  # made for predictions alone
    expected = trainer.predict(TensorRows(table)).predictions
    for rows in (TensorRows(table), table):
        assert np.allclose(bare.predict(rows).predictions, expected, atol=1e-6)
    assert np.allclose(bare.predict(TensorRows(table.remove_columns("labels"))).predictions, expected, atol=1e-6)


def test_a_collator_that_is_given_gets_every_batch(tmp_path):
    options = dict(train_dataset=TensorRows(tiny_run.table(40)), data_collator=collate_rows)
    trainer = SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path, "ce"), **options)
    with pytest.raises(ValueError, match="8 single rows.*Wrap every data set of the trainer in TensorRows, or none"):
        trainer.evaluate(tiny_run.table(40))


def test_a_subset_of_tensor_rows_is_collated_as_they_are(tmp_path):
    rows = TensorRows(tiny_run.table())
    part = Subset(Subset(rows, range(10, 60)), range(0, 50, 2))
    trainer, nets = tiny_run.make(tmp_path, rows=part)
    trainer.train()
    torch.testing.assert_close(
        torch.from_numpy(trainer.predict(part).predictions), nets(**inputs_of(rows, range(10, 60, 2))).logits.detach()
    )


def inputs_of(rows, indices):
    return {"features": rows.batch(list(indices))["features"]}


def test_an_evaluation_has_all_rows_whatever_training_drops(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, dataloader_drop_last=True, per_device_eval_batch_size=36)  # of 96
    assert len(trainer.get_train_dataloader()) == 6 and trainer.args.dataloader_drop_last
    assert len(trainer.predict(trainer.eval_dataset).predictions) == 96
    seen = []
    trainer.compute_metrics = lambda prediction: seen.append(len(prediction.label_ids)) or {}
    trainer.evaluate()
    assert seen == [96]
