"""Inputs that are read a part at a time, for prediction and evaluation: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass
class Chunk:
    """Some rows of an input, in its order.

    Attributes:
        rows: N rows, what was read by column: it is written back beside the predictions.
        inputs: what the model's `predict` takes as its first argument, N of them; of label sets from features, a
            float32 array (N, F).
        gold: N gold structures; None where they are not asked for.
    """

    rows: list[dict[str, Any]]
    inputs: Any
    gold: Any = None


class Reader(Protocol):
    """An input of predictions.

    Attributes:
        columns: the names of its columns, which no column of ours may take.
        total: the number of its rows; None where that is not known. Of a file of lines it is counted, by reading the
            file once: that finds a damaged row before a model is loaded.
        notes: what was chosen or left out, complete when all rows are read.
    """

    notes: list[str]

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def total(self) -> int | None: ...

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All rows in chunks of `size`, the last of what is left.

        Raises:
            DataError: naming the file, the column or the line.
        """
        ...
