"""The micro-batches of one task-net update, and the current one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class Window:
    """One accumulation window.

    Args:
        batches: the micro-batches from the loader; empty for a step called by hand, which is its own window.

    Attributes:
        position: index of the micro-batch that is trained on. (A subclass of the trainer may pass on copies.)
    """

    def __init__(self, batches: Sequence[dict[str, Tensor]] = ()):
        self.batches, self.position = batches, 0
        self._next = 0

    def __len__(self) -> int:
        return max(len(self.batches), 1)

    def advance(self) -> None:
        """Go to the next micro-batch."""
        self.position = self._next if self.batches else 0
        self._next += 1

    @property
    def is_first(self) -> bool:
        """True on the micro-batch that begins the update."""
        return self.position == 0

    @property
    def is_last(self) -> bool:
        """True on the micro-batch after which the task-net's optimizer steps, if the window is whole."""
        return self.position == len(self) - 1

    def is_whole(self, accumulation_steps: int) -> bool:
        """False for the short window at the end of an epoch."""
        return len(self.batches) in (0, accumulation_steps)
