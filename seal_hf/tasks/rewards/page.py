"""Rewards in the page of a run: how often each rule applies, and how far gold and the decisions follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from markupsafe import Markup
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Subset

from ...core.arrays import first_output, sigmoid
from ...core.masks import IGNORE
from ...reports.page import Plot, Section, Table
from ...reports.plots import FAINT, colour, svg
from ...training.base import StructuredTrainer
from ...training.evaluation import changed
from ..labels.decisions.label_decisions import LabelDecisions
from ..masks.decisions import MaskDecisions
from ..masks.metrics import class_masks, mask_probabilities
from ..masks.space import BinaryMaskSpace, MaskSpace
from ..tags.decisions import predicted_tags
from ..tags.space import TagSequenceSpace
from .reward import Reward, Rules
from .rules import in_words
from .semi_supervised import inputs_of

MOST_ROWS = 2000  # of a split
MOST_GAPS = 40  # rules in the plot
AT_ONCE = 256  # rows
EXACT = 1 - 1e-6  # a value above it is 1, but for rounding


def reward_facts(trainer: StructuredTrainer, data: Any, validation: Any) -> dict[str, Any]:
    """What the page shows of a reward, for `_report.json`: [`followed`] on rows without gold and on validation rows.
    All processes must call it, since it predicts.

    Args:
        trainer: a [`SealTrainer`] with a space of rewards whose decisions are fitted, and rows from [`reward_rows`].
        data: with unlabelled rows.
        validation: the rows of `data.validation`, as the nets read them.
    """
    own, space = trainer.train_dataset.unaugmented(), cast(Any, trainer.space)
    parts = {"unlabelled": (data.unlabelled, own), "validation": (data.validation, validation)}
    found = {}
    for part, (dataset, rows) in parts.items():
        count, first = min(len(dataset), MOST_ROWS), len(rows) - len(dataset)  # unlabelled rows follow the labelled
        shown = first_rows(dataset, count)
        inputs = inputs_of(shown)
        outputs = {"decided": _decided(trainer, Subset(rows, range(first, first + count)), inputs)}
        if part == "validation":
            outputs["gold"] = gold_of(shown, data.label_names)
        found[part] = {"rows": count, "of": len(dataset), **followed(space.reward, inputs, outputs, data.label_names)}
    return found


def _decided(trainer: StructuredTrainer, rows: Subset, inputs: Sequence[Any]) -> Any:
    """The decisions of the task-net: N tag sequences, or arrays of label sets or masks."""
    if isinstance(trainer.space, TagSequenceSpace):
        by_decoder, _ = predicted_tags(trainer, rows, [trainer.space.decoder])
        (decided,) = by_decoder.values()
        first = trainer.space.label_names[0]
        return [[*t, *[first] * (len(w) - len(t))] for t, w in zip(decided, inputs, strict=True)]  # cut words
    with changed(trainer, compute_metrics=None):
        logits = first_output(trainer.predict(rows).predictions)
    config = trainer.accelerator.unwrap_model(trainer.model).config
    if isinstance(trainer.space, BinaryMaskSpace):
        return (mask_probabilities(logits) >= MaskDecisions.from_config(config).cut()).astype(np.int64)
    if isinstance(trainer.space, MaskSpace):
        return class_masks(logits)
    return LabelDecisions.from_config(config).decide(sigmoid(logits))


def first_rows(rows: Any, count: int) -> Any:
    """The first rows of a split, or of an array."""
    if isinstance(rows, Dataset):
        return rows.select(range(count))
    return rows[:count] if isinstance(rows, np.ndarray) else rows.take(slice(count))


def gold_of(rows: Any, label_names: Sequence[str]) -> Any:
    """The gold of a split: N tag sequences by names, or arrays of label sets (N, L) or masks (N, H, W)."""
    if not isinstance(rows, Dataset):
        return rows.masks
    if "tags" in rows.column_names:
        return [[label_names[tag] for tag in row] for row in rows["tags"]]
    return np.asarray(rows.with_format("numpy")["labels"][:])


def followed(
    reward: Reward, inputs: Sequence[Any], outputs: Mapping[str, Any], label_names: Sequence[str]
) -> dict[str, Any]:
    """How far S sets of outputs for N inputs follow a reward, and each of its rules.

    Args:
        inputs: N sentences, texts or images.
        outputs: name of a set -> N tag sequences; or an array, label sets (N, L) or masks (N, H, W). Labels below 0
            and pixels of 255 count as absent.
        label_names: all tags, labels or classes.

    Returns:
        `reward`: name of a set -> mean reward, in [0, 1]; `rules`, of [`Rules`]: for each rule its `rule` in words and
        `weight`, `applies`, the share of the inputs to which it applies, and name of a set -> mean value over these
        inputs, in [0, 1], or None if there are none; `exactly`: name of a set -> the share of these inputs whose value
        is 1.
    """
    codes = [torch.tensor(row, dtype=torch.long) for row in reward.codes(inputs)]
    are_tags = not isinstance(next(iter(outputs.values())), np.ndarray)
    rewards, values, exact, applies = [], [], [], []
    for begin in range(0, len(inputs), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        sides = {name: rows[part] for name, rows in outputs.items()}
        if are_tags:
            y, mask = _one_hot(sides, label_names)
            given = pad_sequence(codes[part], batch_first=True), y, mask
        else:
            arrays = np.stack([np.where((rows > 0) & (rows != IGNORE), rows, 0) for rows in sides.values()], axis=1)
            y = torch.from_numpy(arrays).float()
            mask = torch.ones_like(y[:, 0], dtype=torch.bool)
            if y.dim() == 4 and len(label_names) > 2:  # masks of several classes
                y = one_hot(y.long(), len(label_names)).movedim(-1, 2).float()
            given = torch.stack(codes[part]), y, mask
        rewards.append(reward(*given))
        if isinstance(reward, Rules):
            value, applied = reward.parts(*given)  # (B, S, R), (B, R)
            values.append((value * applied.unsqueeze(1)).sum(0))
            exact.append(((value > EXACT) * applied.unsqueeze(1)).sum(0))
            applies.append(applied.sum(0))
    found: dict[str, Any] = {"reward": dict(zip(outputs, torch.cat(rewards).mean(0).tolist(), strict=True))}
    if isinstance(reward, Rules):
        times = torch.stack(applies).sum(0)  # (R,)
        means = (torch.stack(values).sum(0) / times).tolist()  # (S, R)
        shares = (torch.stack(exact).sum(0) / times).tolist()  # (S, R)
        found["rules"] = [
            {
                "rule": in_words(rule),
                "weight": int(rule.weight) if rule.weight % 1 == 0 else rule.weight,
                "applies": int(n) / len(inputs),
            }
            | {name: row[r] if n else None for name, row in zip(outputs, means, strict=True)}
            | {"exactly": {name: row[r] if n else None for name, row in zip(outputs, shares, strict=True)}}
            for r, (rule, n) in enumerate(zip(reward.ordered, times.tolist(), strict=True))
        ]
    return found


def _one_hot(sides: Mapping[str, Any], label_names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tag sequences by names, of S sets -> candidates (B, S, T, C) and the mask of words (B, T)."""
    place = {name: i for i, name in enumerate(label_names)}
    sentences = zip(*sides.values(), strict=True)
    ids = [torch.tensor([[place[tag] for tag in row] for row in rows]) for rows in sentences]  # (S, T)
    padded = pad_sequence([row.T for row in ids], batch_first=True, padding_value=-1).transpose(1, 2)
    return one_hot(padded.clamp_min(0), len(label_names)).float(), padded[:, 0] >= 0


# --- sections --------------------------------------------------------------------------------------------------------


def reward_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The section that shows the findings of [`reward_facts`]."""
    counts = " and ".join(f"{found['rows']:,} of {found['of']:,} {part} rows" for part, found in facts.items())
    whole = [{"rows": part, **found["reward"]} for part, found in facts.items()]
    caption = "The whole reward, at most 1. If gold is far below 1, the reward asks for something else than gold."
    parts: list[Any] = [f"The figures are means over {counts}.", Table(whole, caption)]
    if "rules" in facts["validation"]:
        rows = rule_rows(facts)
        caption = (
            "How far gold and the decisions follow each rule on validation rows, by its number in the table. At the "
            "top, gold follows it more than the decisions do: it was not learned. At the bottom, the decisions follow "
            "it more than gold. A rule that gold breaks often is wrong for this data."
        )
        columns = (
            "Gold and decided: how far they follow the rule, a mean over validation rows to which it applies, or over "
            "unlabelled rows. Applies: the share of these rows."
        )
        parts += [Plot(gaps_plot(rows), caption), Table(rows, columns)]
    return [Section("Reward", parts)]


def rule_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row of the table for each rule."""
    ours, theirs = facts["validation"]["rules"], facts["unlabelled"]["rules"]
    return [
        {"rule": number, "gold": one["gold"], "decided": one["decided"], "applies": one["applies"]}
        | {"decided, unlabelled": other["decided"], "applies, unlabelled": other["applies"]}
        | {"weight": one["weight"], "what it says": Markup('<span class="breaks">{}</span>').format(one["rule"])}
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True), 1)
    ]


def gaps_plot(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """A plot of the rules on which gold and decisions differ most, with a line between the two."""
    applied = [row for row in rows if row["gold"] is not None]
    apart = sorted(applied, key=lambda row: -abs(row["decided"] - row["gold"]))[:MOST_GAPS]
    shown = sorted(apart, key=lambda row: row["decided"] - row["gold"])

    def draw(axes: Any) -> None:
        gold, decided = ([row[side] for row in shown] for side in ("gold", "decided"))
        places = range(len(shown))
        axes.hlines(places, gold, decided, color=FAINT, linewidth=1)
        axes.scatter(gold, places, s=22, color=colour(0), label="gold", zorder=2)
        axes.scatter(decided, places, s=22, color=colour(1), marker="D", label="decisions", zorder=2)
        axes.set_yticks(places, [f"rule {row['rule']}" for row in shown])
        axes.invert_yaxis()
        axes.set(xlabel="followed", xlim=(-0.03, 1.03))

    return svg(draw, height=1.1 + 0.2 * len(shown))
