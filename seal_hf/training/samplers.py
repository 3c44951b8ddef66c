"""The order of training rows: for batch repeats, the paper's n_F task-net updates on one batch; for rows of which only
some have gold; and for samplers of the Trainer that draw it from the global random state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..data.tensors.collators import TensorRows


class WindowRepeatSampler(torch.utils.data.Sampler[int]):
    """A shuffled epoch in which every accumulation window comes `repeats` times in a row.

    A window holds the rows that all processes use for one task-net update: per-device batch x accumulation x processes.
    Repeating whole windows, not micro-batches, keeps every process on its own rows. The last window is filled from the
    start of the same permutation.

    Args:
        num_rows: rows of the data set, at least 1.
        window: rows per window.
        repeats: n_F.
        seed: the order of epoch e depends on `seed + e` alone.
        num_labelled: the first rows, which are labelled and are spread [`evenly`]; None: all rows are shuffled alike.
    """

    def __init__(self, num_rows: int, window: int, repeats: int, seed: int, num_labelled: int | None = None):
        self.num_rows, self.window, self.repeats, self.seed = num_rows, window, repeats, seed
        self.num_labelled, self.epoch = num_labelled, 0

    @classmethod
    def of_trainer(cls, trainer: Any, dataset: Any) -> WindowRepeatSampler:
        """For the rows, batch size, processes and seed of a trainer."""
        args = trainer.args
        window = trainer._train_batch_size * args.gradient_accumulation_steps * args.world_size
        if args.batch_repeats == 1:
            window = 1  # no window has to be filled
        few = dataset.num_labelled if has_few_labels(dataset) else None
        return cls(len(dataset), window, args.batch_repeats, order_seed(args), few)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.num_rows // self.window) * self.window * self.repeats

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        if self.num_labelled is None:
            order = torch.randperm(self.num_rows, generator=generator)
        else:
            order = evenly(self.num_labelled, self.num_rows, generator)
        num_windows = -(-self.num_rows // self.window)
        order = order.repeat(-(-num_windows * self.window // self.num_rows))[: num_windows * self.window]
        repeated = order.view(num_windows, 1, self.window).expand(-1, self.repeats, -1)
        yield from repeated.reshape(-1).tolist()


class SeededByEpoch(torch.utils.data.Sampler[int]):
    """A sampler of the Trainer with a generator of its own in each epoch. Without one, it draws from the global random
    state, which a run that resumes within an epoch cannot bring back.

    Args:
        sampler: has an attribute `generator`.
        seed: the order of epoch e depends on `seed + e` alone.
    """

    def __init__(self, sampler: Any, seed: int):
        self.sampler, self.seed, self.epoch = sampler, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        self.sampler.generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(self.sampler)


def order_seed(args: Any) -> int:
    """The seed of the order of rows."""
    return args.seed if args.data_seed is None else args.data_seed


def has_few_labels(rows: Any) -> bool:
    """True for rows of which only the first have gold."""
    return isinstance(rows, TensorRows) and rows.num_labelled is not None


def evenly(num_labelled: int, num_rows: int, generator: torch.Generator) -> torch.Tensor:
    """A random order of N rows, (N,), in which the labelled ones, the first, are spread evenly: among any n consecutive
    rows, their number differs from n times their share by less than one."""
    steps = torch.arange(num_rows + 1) * num_labelled // num_rows
    is_labelled = steps.diff() > 0  # (N,)
    order = torch.empty(num_rows, dtype=torch.long)
    order[is_labelled] = torch.randperm(num_labelled, generator=generator)
    order[~is_labelled] = num_labelled + torch.randperm(num_rows - num_labelled, generator=generator)
    return order
