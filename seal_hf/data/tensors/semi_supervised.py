"""Training rows: a few with gold tags, the others with a reward (Shankar & Piratla, citation fields).

    data = load_tags("cora", num_labelled=10)  # data.train: 10 rows, data.unlabelled: the others
    reward = RuleReward("recipes/rules/cora.yaml", data.label_names)
    rows = reward_rows(data, lambda split: encode_words(split, vocabulary), reward)
    space = RewardSpace.from_arguments(args, seal.task_net, reward)
    trainer = SealTrainer(seal, args, train_dataset=rows, space=space, ...)

Use an `energy_loss` that scores candidates (`regression`, `regression_s`), or one that compares samples
(`contrastive_divergence`, `ranking`, `nce`): the sample with the highest reward then replaces missing gold.
"""

from __future__ import annotations

from collections.abc import Callable

from datasets import Dataset, concatenate_datasets

from ...spaces.rewarded import REWARD_CODES, UNLABELLED
from ...spaces.rewards import Reward
from ...structures.sequences import IGNORED
from .. import DataError, TagSequenceData
from .words import WordRows


def reward_rows(
    data: TagSequenceData, encode: Callable[[Dataset], WordRows], reward: Reward, *, repeat_labelled: int = 1
) -> WordRows:
    """Labelled and unlabelled rows together, with the codes of their words.

    Args:
        data: from `load_tags(..., num_labelled=N)`.
        encode: a split -> rows, such as [`encode_words`] or [`tokenize_words`] with their options.
        repeat_labelled: how often each labelled row occurs; without repeats, batches would hardly contain the few
            labelled rows.

    Returns:
        Rows with a column `reward_codes` (T,). Labels are -1 at positions that count but lack a gold tag, and -100 at
        positions that do not count. `gold_share` is the share of rows with gold: divide `task_weight` by it to make the
        task loss the mean over those rows.

    Raises:
        DataError: no unlabelled rows; `repeat_labelled` below 1.
    """
    if data.unlabelled is None:
        raise DataError(f"{data.name} has no unlabelled rows; load it with `num_labelled`.")
    if repeat_labelled < 1:
        raise DataError(f"`repeat_labelled` is {repeat_labelled}; it must be at least 1.")
    labelled = concatenate_datasets([data.train] * repeat_labelled)
    zeros = [[0] * len(words) for words in data.unlabelled["words"]]
    unlabelled = data.unlabelled.add_column("tags", zeros).select_columns(labelled.column_names)
    both = concatenate_datasets([labelled, unlabelled.cast(labelled.features)])
    rows = encode(both)
    codes = both.remove_columns("tags").add_column("tags", reward.codes(both["words"][:]))
    codes = encode(codes)  # only the first sub-word of each word has a label, and so a code
    if "labels" in rows.ragged:
        flat, offsets = codes.ragged["labels"]
        rows.ragged[REWARD_CODES] = flat.clamp_min(0), offsets
        flat, offsets = rows.ragged["labels"]
        without = flat[offsets[len(labelled)] :]
    else:  # rows of one length
        rows.dense[REWARD_CODES] = codes.dense["labels"].clamp_min(0)
        without = rows.dense["labels"][len(labelled) :]
    without[without != IGNORED] = UNLABELLED
    rows.padding[REWARD_CODES] = 0
    rows.gold_share = len(labelled) / len(both)
    return rows
