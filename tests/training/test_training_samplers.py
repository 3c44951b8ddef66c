"""WindowRepeatSampler, by its definition, checked by brute force over many sizes; and what a trainer makes of it."""

import itertools

import pytest
import tiny_run
import torch

from seal_hf import TensorRows
from seal_hf.training.epochs import WindowRepeatSampler, evenly

SIZES = list(itertools.product([1, 2, 5, 12, 13], [1, 2, 3, 4, 7, 20], [1, 2, 3]))


@pytest.mark.parametrize("num_rows, window, repeats", SIZES)
def test_every_window_comes_n_times_in_a_row(num_rows, window, repeats):
    sampler = WindowRepeatSampler(num_rows, window, repeats, seed=3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        order = list(sampler)
        num_windows = 0  # the fewest that hold all rows
        while num_windows * window < num_rows:
            num_windows += 1
        assert len(order) == len(sampler) == num_windows * window * repeats
        assert all(type(row) is int for row in order)
        once = []
        for start in range(0, len(order), window * repeats):
            visits = [order[start + i * window : start + (i + 1) * window] for i in range(repeats)]
            assert all(visit == visits[0] for visit in visits)
            once += visits[0]
        assert sorted(once[:num_rows]) == list(range(num_rows))  # each row once, before any comes again
        assert once[num_rows:] == [once[i % num_rows] for i in range(len(once) - num_rows)]  # the tail is wrapped


def test_the_order_depends_on_seed_plus_epoch_alone():
    def order(seed, epoch):
        sampler = WindowRepeatSampler(50, 8, 2, seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    orders = {total: order(total, 0) for total in range(6)}
    assert len({tuple(value) for value in orders.values()}) == 6
    for seed, epoch in itertools.product(range(3), repeat=2):
        assert order(seed, epoch) == orders[seed + epoch]
    torch.manual_seed(99)  # the global generator has no part in it, and is left alone
    state = torch.random.get_rng_state()
    assert order(0, 0) == orders[0] and torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("repeats", [2, 3])
def test_repeated_windows_keep_labelled_rows_evenly_spread(repeats):
    few, rows, window = 25, 100, 16
    once = evenly(few, rows, torch.Generator().manual_seed(4)).tolist()
    order = list(WindowRepeatSampler(rows, window, repeats, 4, few))
    windows = [order[start : start + window] for start in range(0, len(order), window)]
    assert all(windows[i] == windows[i - i % repeats] for i in range(len(windows)))
    assert sum(windows[::repeats], [])[:rows] == once
    assert {sum(row < few for row in each) for each in windows[: -2 * repeats]} == {4}


def numbered():
    return TensorRows(tiny_run.table(40).add_column("row", range(40)))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_of_the_trainer_is_one_of_the_sampler(tmp_path, workers):
    """40 rows, 2 micro-batches of 8, each window twice: 6 updates per epoch, in the sampler's order."""
    options = dict(batch=8, accumulation=2, batch_repeats=2, num_train_epochs=2, dataloader_num_workers=workers)
    trainer, nets = tiny_run.make(tmp_path, "ce", rows=numbered(), remove_unused_columns=False, seed=5, **options)
    seen = []
    nets.task_net.register_forward_pre_hook(
        lambda module, args, inputs: seen.append(inputs["row"].tolist()), with_kwargs=True
    )
    trainer.train()
    assert trainer.state.global_step == 12 and {len(batch) for batch in seen} == {8}
    expected = []
    for epoch in range(2):
        sampler = WindowRepeatSampler(40, 16, 2, seed=5)
        sampler.set_epoch(epoch)
        expected += list(sampler)
    assert sum(seen, []) == expected


def test_without_repeats_the_sampler_is_the_trainers_own(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, "ce")
    assert isinstance(trainer._get_train_sampler(), torch.utils.data.RandomSampler)


def test_the_data_seed_wins_over_the_seed(tmp_path):
    orders = []
    for seeds in (dict(seed=1, data_seed=7), dict(seed=2, data_seed=7), dict(seed=7)):
        trainer, _ = tiny_run.make(tmp_path, "ce", batch_repeats=2, **seeds)
        orders.append(list(trainer._get_train_sampler()))
    assert orders[0] == orders[1] == orders[2] == list(WindowRepeatSampler(tiny_run.ROWS, 16, 2, seed=7))
