"""The processes that a launcher such as `accelerate launch` has started for one command. They share out its chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

LONGEST_WAIT = timedelta(days=30)  # the slowest process may have much to do; a launcher ends the others if one fails
T = TypeVar("T")
Result = TypeVar("Result")


class Processes:
    """One process, or those of a launcher, connected through gloo: they exchange little, and it runs everywhere.

    Attributes:
        rank: the number of this process, from 0.
        count: how many there are.
    """

    def __init__(self) -> None:
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if self.count == 1:
            return
        import torch

        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", timeout=LONGEST_WAIT)
        devices = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
        if devices:
            torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")) % devices)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            import torch

            torch.distributed.barrier()

    def first_alone(self, function: Callable[[], T]) -> T:
        """What a function returns, which the first process calls before the others do: it alone tells of a mistake."""
        if self.rank:
            self.wait()
        found = function()
        if not self.rank:
            self.wait()
        return found

    def results(self, items: Iterable[T], function: Callable[[T], Result]) -> Iterator[Result]:
        """What a function returns for each item, in order. Every process computes its share, and the first gets all;
        the others end here, since the rest of the command is not theirs."""
        if self.count == 1:
            yield from map(function, items)
            return
        import torch

        remaining = iter(items)
        while items := list(islice(remaining, self.count)):
            own = function(items[self.rank]) if self.rank < len(items) else None
            found: list[Any] | None = None if self.rank else [None] * self.count
            torch.distributed.gather_object(own, found)
            yield from (found or [])[: len(items)]
        if self.rank:
            raise SystemExit(0)
