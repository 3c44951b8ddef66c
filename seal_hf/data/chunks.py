"""Rows in parts, so that the memory of a prediction or an evaluation does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass
class Chunk:
    """Some rows of an input, in its order.

    Attributes:
        rows: N rows as read, column -> value; they are written back beside the predictions.
        inputs: N inputs, the first argument of the model's `predict`; for label sets from features, a float32 array
            (N, F).
        gold: N gold structures; None if not asked for.
    """

    rows: list[dict[str, Any]]
    inputs: Any
    gold: Any = None


class Reader(Protocol):
    """An input for predictions.

    Attributes:
        columns: the names of its columns, which our columns must not take.
        total: the number of its rows; None if unknown. Counting reads a file of lines once, which finds a damaged row
            before a model is loaded.
        notes: what was chosen or left out, complete after all rows are read.
    """

    notes: list[str]

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def total(self) -> int | None: ...

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All rows in chunks of `size`; the last chunk may be smaller.

        Raises:
            DataError: names the file, the column or the line.
        """
        ...


def parts(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` rows; the last may be shorter."""
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part
