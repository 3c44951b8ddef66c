"""Training rows: a few with gold, the others with a reward (Shankar & Piratla, citation fields).

    data = load_tags("cora", num_labelled=10)  # data.train: 10 rows, data.unlabelled: the others
    reward = TagRuleReward("recipes/rules/cora.yaml", data.label_names)
    rows = reward_rows(data, lambda split: encode_words(split, vocabulary), reward)
    space = RewardTagSpace.from_arguments(args, seal.task_net, reward)
    trainer = SealTrainer(seal, args, train_dataset=rows, space=space, ...)

Use an `energy_loss` that scores candidates (`regression`, `regression_s`), or one that compares samples
(`contrastive_divergence`, `ranking`, `nce`): the sample with the highest reward then replaces missing gold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from torch import Tensor

from ...core.space import REWARD_CODES, UNLABELLED, UNLABELLED_PIXEL, UNLABELLED_SET
from ...data import DataError, MultiLabelData, SegmentationData, TagSequenceData
from ...data.common import IMAGE, PAIR, fixed_size_column
from ...data.masks import SegmentationSplit
from ...data.tensors.collators import TensorRows
from .reward import Reward

LABELLED_SHARE = 0.25  # of the rows of an epoch


def reward_rows(
    data: TagSequenceData | MultiLabelData | SegmentationData,
    encode: Callable[[Any], Any],
    reward: Reward,
    *,
    repeat_labelled: int | None = 1,
) -> Any:
    """Labelled and unlabelled rows together, with what the reward must know about each.

    The trainer spreads the labelled rows evenly: any two batches of one size differ by at most one labelled row.

    Args:
        data: a data set with `unlabelled` rows.
        encode: a split -> rows, such as [`encode_words`], [`tokenize`], [`TensorRows`] or [`MaskRows`] with their
            options.
        repeat_labelled: how often each labelled row occurs; without repeats, batches would hardly contain the few
            labelled rows. None: so often that about a quarter of the rows are labelled, at least once.

    Returns:
        Rows with a column `reward_codes`. Labels of rows without gold are -1 at positions of a sentence that count, -2
        for a label set, 254 for a mask. `gold_share` is the share of rows with gold: divide `task_weight` by it to make
        the task loss the mean over those rows.

    Raises:
        DataError: no unlabelled rows; `repeat_labelled` below 1.
    """
    repeat_labelled = repeats_of(data, repeat_labelled)
    make: Any = {TagSequenceData: _sentences, MultiLabelData: _label_sets, SegmentationData: _masks}[type(data)]
    rows = make(data, encode, reward, repeat_labelled)
    rows.num_labelled = len(data.train) * repeat_labelled
    return rows


def repeats_of(data: MultiLabelData | TagSequenceData | SegmentationData, repeat_labelled: int | None) -> int:
    """How often each labelled row occurs among the rows of [`reward_rows`]. Arguments and errors are those of that
    function."""
    if data.unlabelled is None:
        raise DataError(f"{data.name} has no unlabelled rows; load it with `num_labelled` or `unlabelled`.")
    if repeat_labelled is None:
        ratio = LABELLED_SHARE / (1 - LABELLED_SHARE)
        return max(1, round(ratio * len(data.unlabelled) / len(data.train)))
    if repeat_labelled < 1:
        raise DataError(f"`repeat_labelled` is {repeat_labelled}; it must be at least 1.")
    return repeat_labelled


def inputs_of(rows: Any) -> Sequence[Any]:
    """The inputs of N rows, as a reward reads them: lists of words, texts or pairs of them, arrays of features, images.

    Args:
        rows: a split of any kind of data, or an array of images.
    """
    if isinstance(rows, np.ndarray):
        return list(rows)
    if not isinstance(rows, Dataset):
        return list(rows.images)
    if PAIR[1] in rows.column_names:
        return list(zip(rows[PAIR[0]][:], rows[PAIR[1]][:], strict=True))
    if "features" in rows.column_names:
        return list(np.asarray(rows.with_format("numpy")["features"][:]))
    return rows[next(name for name in ("words", PAIR[0], IMAGE) if name in rows.column_names)][:]


def _sentences(data: TagSequenceData, encode: Callable[[Dataset], Any], reward: Reward, repeat: int) -> Any:
    assert data.unlabelled is not None
    labelled = concatenate_datasets([data.train] * repeat)
    without = [[UNLABELLED] * len(words) for words in data.unlabelled["words"]]
    unlabelled = data.unlabelled.add_column("tags", without).select_columns(labelled.column_names)
    both = concatenate_datasets([labelled, unlabelled.cast(labelled.features)])
    rows = encode(both)
    codes = both.remove_columns("tags").add_column("tags", reward.codes(both["words"][:]))
    codes = encode(codes)  # only the first sub-word of each word has a label, and so a code
    if "labels" in rows.ragged:
        flat, offsets = codes.ragged["labels"]
        rows.ragged[REWARD_CODES] = flat.clamp_min(0), offsets
    else:  # rows of one length
        rows.dense[REWARD_CODES] = codes.dense["labels"].clamp_min(0)
    rows.padding[REWARD_CODES] = 0
    return rows


def _label_sets(data: MultiLabelData, encode: Callable[[Dataset], TensorRows], reward: Reward, repeat: int) -> Any:
    assert data.unlabelled is not None
    labelled, count = concatenate_datasets([data.train] * repeat), len(data.unlabelled)
    empty = fixed_size_column(np.zeros((count, len(data.label_names)), np.float32)).cast(
        labelled.features.arrow_schema.field("labels").type
    )
    unlabelled = concatenate_datasets([data.unlabelled, _column("labels", empty)], axis=1)
    if "sample_weight" in labelled.column_names:
        ones = np.ones(count, np.float32)
        unlabelled = concatenate_datasets([unlabelled, Dataset.from_dict({"sample_weight": ones})], axis=1)
    unlabelled = unlabelled.select_columns(labelled.column_names).cast(labelled.features)
    rows = encode(concatenate_datasets([labelled, unlabelled]))
    rows.dense["labels"][len(labelled) :] = UNLABELLED_SET
    rows.dense[REWARD_CODES] = _codes(reward, inputs_of(data.unlabelled), len(labelled))
    return rows


def _column(name: str, values: Any) -> Dataset:
    import pyarrow as pa

    return Dataset(pa.table({name: values}))


def _masks(data: SegmentationData, encode: Callable[[SegmentationSplit], Any], reward: Reward, repeat: int) -> Any:
    assert data.unlabelled is not None
    labelled, images = data.train, data.unlabelled
    missing = np.full(images.shape[:3], UNLABELLED_PIXEL, np.uint8)
    split = SegmentationSplit(
        np.concatenate([labelled.images] * repeat + [images]),
        np.concatenate([labelled.masks] * repeat + [missing]),
        inputs=labelled.inputs,
    )
    rows = encode(split)
    rows.dense[REWARD_CODES] = _codes(reward, inputs_of(images), repeat * len(labelled))
    return rows


def _codes(reward: Reward, inputs: Sequence[Any], labelled: int) -> Tensor:
    """The codes of rows without gold behind those of the labelled rows, which are 0: (N, P) int64."""
    codes = torch.tensor(reward.codes(inputs), dtype=torch.long)
    return torch.cat([codes.new_zeros(labelled, codes.shape[1]), codes])
