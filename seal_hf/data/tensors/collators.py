"""Tensor-backed data sets: a batch is fetched by index as whole tensors, never row by row in Python; with their
collator for the Trainer, and their order.

A batch is padded to its longest row. With rows in their own order, most of the work of an evaluation is padding; sorted
by length, hardly any is. Predictions, labels and the input of `compute_metrics` are put back into the rows' own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import BatchEncoding, EvalPrediction, PreTrainedTokenizerBase

from ..common import PAIR

TEXT_PADDING = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0}  # `input_ids`: of the net or tokenizer


class TensorRows(torch.utils.data.Dataset):
    """Columns of a `datasets.Dataset` as tensors, for the Trainer.

    A column of equally long rows is one (N, ...) tensor; a ragged column of token ids, or of lists of one width (the
    characters of each word), is kept flat with offsets and padded to the longest row of each batch. Row-wise Arrow
    reads cost a sixth of a small net's step; this costs one index operation per column.

    Args:
        dataset: numeric columns only.
        padding: value that pads each ragged column, by name.
        multi_hot: ragged column of label ids -> its number of labels L: a batch gets float32 (B, L). For 10⁴ labels and
            more, whose dense rows are then not stored.

    Attributes:
        inputs: how the rows were read, which the trainer stores as `config.inputs`: `max_length` of texts, and `pairs`
            if a row has two texts.
        num_cut: number of texts cut at that length.
        num_labelled: the number of rows with gold, if the first rows have gold and the others a reward; else None.
        is_random: True if a row differs by epoch.

    Raises:
        ValueError: a column is not numeric, or is ragged and has no padding value.
    """

    inputs: dict[str, Any] | None = None
    num_cut: int = 0
    num_labelled: int | None = None

    def __init__(
        self, dataset: Dataset, padding: dict[str, int] | None = None, multi_hot: dict[str, int] | None = None
    ):
        self.length = len(dataset)
        self.multi_hot = multi_hot or {}
        self.padding = {**(padding or {}), **self.multi_hot}  # id L pads short rows
        self.dense: dict[str, Tensor] = {}
        self.ragged: dict[str, tuple[Tensor, Tensor]] = {}  # flat values, offsets (N + 1,)
        for name in dataset.column_names:
            column = dataset.data.column(name).combine_chunks() if dataset._indices is None else None
            column = column if column is not None else dataset.flatten_indices().data.column(name).combine_chunks()
            self._add(name, column)

    def _add(self, name: str, column: Any) -> None:
        if column.null_count > 0:
            raise ValueError(f"Column `{name}` has missing values; TensorRows takes numbers. Fill in or remove them.")
        if not hasattr(column, "flatten"):
            values = column.to_numpy(zero_copy_only=False)
            self.dense[name] = self._tensor(name, values)
            return
        values = column.flatten()
        inner = getattr(values.type, "list_size", None)  # vectors of one width, one per token
        if inner is not None and values.null_count == 0:
            values = values.flatten()
        if values.null_count > 0 or hasattr(values, "flatten"):
            raise ValueError(f"Column `{name}` has missing values or nested lists; TensorRows takes flat numeric rows.")
        lengths = (
            np.full(len(column), column.type.list_size)
            if hasattr(column.type, "list_size")
            else np.diff(column.offsets.to_numpy())
        )
        flat = self._tensor(name, values.to_numpy(zero_copy_only=False))
        flat = flat if inner is None else flat.view(-1, inner)
        if len(set(lengths.tolist())) <= 1 and name not in self.padding:
            self.dense[name] = flat.view(self.length, int(lengths[0]) if self.length else 0, *flat.shape[1:])
        elif name in self.padding:
            self._check_ids(name, flat)
            self.ragged[name] = (flat, torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)])))
        else:
            raise ValueError(
                f"Rows of column `{name}` have between {lengths.min()} and {lengths.max()} values; give its "
                f"padding value "
                f"(`padding={{{name!r}: ...}}`) or make all rows equally long."
            )

    def _check_ids(self, name: str, ids: Tensor) -> None:
        size = self.multi_hot.get(name)
        if size is None or not len(ids):
            return
        if ids.is_floating_point() or ids.min() < 0 or ids.max() >= size:
            raise ValueError(
                f"Column `{name}` holds {ids.dtype} values from {ids.min()} to {ids.max()}; as multi_hot={{{name!r}: "
                f"{size}}} it takes label ids, integers from 0 to {size - 1}."
            )

    @staticmethod
    def _tensor(name: str, values: np.ndarray) -> Tensor:
        if values.dtype.kind not in "iufb":
            raise ValueError(
                f"Column `{name}` holds {values.dtype} values; TensorRows takes numbers. Remove or encode it."
            )
        return torch.from_numpy(np.array(values, dtype=np.float32 if values.dtype.kind == "f" else np.int64))

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows: {', '.join(self.column_names)})"

    def __getitem__(self, key: int | str) -> Any:
        """A row, name -> tensor; or a column by its name, (N, ...), padded to its longest row."""
        if isinstance(key, str):
            if key not in self.column_names:
                raise KeyError(f"no column {key!r}; the columns are {', '.join(self.column_names)}")
            return self.batch(range(len(self)))[key]
        return {name: column[0] for name, column in self.batch([key]).items()}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        """Called by the DataLoader: a list with one element, the stacked batch."""
        return [self.batch(indices)]

    @property
    def is_random(self) -> bool:
        return False

    def unaugmented(self) -> TensorRows:
        """The same rows without random changes, as an evaluation reads them."""
        return self

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Rows `indices` as one dict of tensors: dense columns (B, ...), ragged ones (B, longest row)."""
        rows = torch.as_tensor(indices, dtype=torch.long)
        batch = {name: column[rows] for name, column in self.dense.items()}
        for name, (flat, offsets) in self.ragged.items():
            start, length = offsets[rows], offsets[rows + 1] - offsets[rows]
            steps = torch.arange(int(length.max()))  # (T,)
            inside = steps < length.unsqueeze(1)  # (B, T)
            values = flat[(start.unsqueeze(1) + steps).clamp_max(len(flat) - 1)]
            inside = inside.view(*inside.shape, *[1] * (values.dim() - 2))
            batch[name] = torch.where(inside, values, self.padding[name])
        for name, size in self.multi_hot.items():
            batch[name] = torch.zeros(len(rows), size + 1).scatter_(1, batch[name], 1.0)[:, :size]
        return batch

    @property
    def gold_share(self) -> float:
        """Share of the rows that have gold."""
        return 1.0 if self.num_labelled is None else self.num_labelled / self.length

    @property
    def column_names(self) -> list[str]:
        return [*self.dense, *self.ragged]


def is_table(dataset: Any) -> bool:
    """True for a `datasets.Dataset` whose columns are what a batch gets. A transform of the user's own makes other rows
    of them, row by row."""
    return isinstance(dataset, Dataset) and dataset.format["type"] != "custom"


def collate_rows(features: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Collator of [`TensorRows`]: the batch is already whole.

    Raises:
        ValueError: single rows, from a data set other than TensorRows.
    """
    if len(features) != 1:
        raise ValueError(
            f"Got a batch of {len(features)} single rows, expected whole batches of TensorRows. Wrap every data set of "
            "the trainer in TensorRows, or none."
        )
    return features[0]


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id that pads rows of tokens: of the tokenizer's padding token, or else of its token for the end of a text."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((value for value in known if value is not None), 0)


def encoded_texts(
    texts: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, max_length: int | None
) -> BatchEncoding:
    """Token ids of N texts, or of N pairs in two lists, to train and to predict. Longer ones are cut at `max_length`
    tokens, with special ones; None: never cut."""
    return tokenizer(*texts, truncation=max_length is not None, max_length=max_length, verbose=False)


def tokenize(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> TensorRows:
    """Column `text` -> padded token ids per batch; `labels`, `sample_weight` and `soft_labels` are kept. With
    a column `text_pair`, the tokenizer reads both texts of a row as a pair.

    Args:
        dataset: columns `text` and `labels`, perhaps `text_pair`.
        tokenizer: a Hugging Face tokenizer.
        max_length: longer texts are cut at this number of tokens, with special ones; None: never cut, for a net that
            reads windows.

    Raises:
        ValueError: `max_length` leaves no room for a word; pairs with `max_length` None.
    """
    columns = [name for name in PAIR if name in dataset.column_names]
    least = tokenizer.num_special_tokens_to_add(pair=len(columns) == 2) + len(columns)
    if max_length is None and len(columns) == 2:
        raise ValueError(
            "`max_length` is None, as for windows (--long_texts windows), but rows have two texts, and a window holds "
            "one. Cut them: give a `max_length`, and leave `long_texts` out."
        )
    if max_length is not None and max_length < least:
        raise ValueError(f"`max_length` is {max_length}; with special tokens a row has at least {least}.")

    def encode(rows: dict[str, list]) -> dict[str, list]:
        found = encoded_texts([rows[name] for name in columns], tokenizer, max_length)
        # with a slow tokenizer, a text of exactly that length counts too
        cut = [len(row.overflowing) > 0 for row in found.encodings or ()]
        return {**found, "cut": cut or [len(ids) == max_length for ids in found["input_ids"]]}

    dropped = [name for name in dataset.column_names if name not in ("labels", "sample_weight", "soft_labels")]
    encoded = dataset.map(encode, batched=True, remove_columns=dropped)
    num_cut, encoded = sum(encoded["cut"][:]), encoded.remove_columns("cut")
    padding = TEXT_PADDING | {"input_ids": padding_id(tokenizer)}
    rows = TensorRows(encoded, {name: value for name, value in padding.items() if name in encoded.column_names})
    rows.inputs, rows.num_cut = {"max_length": max_length, **({"pairs": True} if len(columns) == 2 else {})}, num_cut
    return rows


# --- batches of rows of similar lengths -------------------------------------------------------------------------------


class LongestFirst(list):
    """Indices of rows in a loader's order; its sampler."""


def order_of(loader: DataLoader) -> LongestFirst | None:
    """The order of a loader with the longest rows first, also a wrapped one; None for any other."""
    sampler = getattr(loader, "batch_sampler", None)
    while sampler is not None and not isinstance(sampler, LongestFirst):
        sampler = getattr(sampler, "batch_sampler", getattr(sampler, "sampler", None))
    return sampler


def longest_first(dataset: object) -> LongestFirst | None:
    """Indices of [`TensorRows`], longest row first; None if all are equally long, and for other data sets."""
    if not isinstance(dataset, TensorRows):
        return None
    lengths = [offsets.diff() for name, (_, offsets) in dataset.ragged.items() if name not in dataset.multi_hot]
    if not lengths or len(dataset) == 0:
        return None
    longest = np.max([length.numpy() for length in lengths], axis=0)
    return None if np.ptp(longest) == 0 else LongestFirst(np.argsort(-longest, kind="stable").tolist())


def put_back(values: Any, order: Sequence[int]) -> Any:
    """Results from this order in the rows' own order: an array, or arrays in tuples, lists and dicts."""
    if isinstance(values, (tuple, list)):
        return type(values)(put_back(value, order) for value in values)
    if isinstance(values, dict):
        return {key: put_back(value, order) for key, value in values.items()}
    if values is None:
        return None
    restored = np.empty_like(values)
    restored[np.asarray(order)] = values
    return restored


def in_own_order(compute_metrics: Callable[[EvalPrediction], dict], order: Sequence[int]) -> Callable:
    """A `compute_metrics` that gets rows in their own order."""

    def computed(found: EvalPrediction) -> dict:
        parts = {name: getattr(found, name, None) for name in ("predictions", "label_ids", "inputs", "losses")}
        given = {name: put_back(value, order) for name, value in parts.items() if value is not None}
        return compute_metrics(EvalPrediction(**{"label_ids": None} | given))

    return computed
