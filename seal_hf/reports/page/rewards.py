"""Rewards in the page of a run: how often each rule applies, and how far gold and the decisions follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Subset

from ...data import TagSequenceData
from ...data.tensors.words import WordRows
from ...metrics.tags import Tags
from ...spaces.rewards import Reward, Rule, RuleReward
from ...training.decisions import predicted_tags
from .page import Plot, Section, Table
from .plots import FAINT, colour, svg

MOST_ROWS = 2000  # of a split
MOST_GAPS = 40  # rules in the plot
AT_ONCE = 256  # rows
KINDS = {  # of rules -> in words
    "words": "{pattern} is in {fields}",
    "changes_after": "the field changes only after {pattern}",
    "first": "the first word is in {fields}",
    "last": "the last word is in {fields}",
    "once": "{fields} is in one piece",
    "order": "{fields}, in this order",
    "present": "there is {fields}",
}


def reward_facts(trainer: Any, data: TagSequenceData, validation: WordRows) -> dict[str, Any]:
    """What the page shows of a reward, for `_report.json`: [`followed`] on rows without gold and on validation rows.
    All processes must call it, since it predicts.

    Args:
        trainer: a [`SealTrainer`] with a [`RewardSpace`] whose decoder is chosen, and rows from [`reward_rows`].
        data: with unlabelled rows.
        validation: the rows of `data.validation`, as the nets read them.
    """
    assert data.unlabelled is not None, "as `reward_rows` says"
    own, names = trainer.train_dataset, trainer.space.label_names
    parts = {"unlabelled": (data.unlabelled, own), "validation": (data.validation, validation)}
    found = {}
    for part, (dataset, rows) in parts.items():
        count, first = min(len(dataset), MOST_ROWS), len(rows) - len(dataset)  # unlabelled rows follow the labelled
        by_decoder, _ = predicted_tags(trainer, Subset(rows, range(first, first + count)), [trainer.space.decoder])
        shown = dataset[:count]
        (decided,) = by_decoder.values()
        padded = [[*t, *[names[0]] * (len(w) - len(t))] for t, w in zip(decided, shown["words"], strict=True)]  # cut
        tags = {"decided": padded}
        if part == "validation":
            tags["gold"] = [[names[tag] for tag in row] for row in shown["tags"]]
        found[part] = {"rows": count, "of": len(dataset), **followed(trainer.space.reward, shown["words"], tags, names)}
    return found


def followed(
    reward: Reward, words: Sequence[Sequence[str]], tags: Mapping[str, Tags], label_names: Sequence[str]
) -> dict[str, Any]:
    """The reward of N sentences under each of S sets of tags.

    Args:
        words: N sentences.
        tags: name of a set -> N tag sequences.
        label_names: all tags.

    Returns:
        `reward`: name of a set -> mean reward, in [0, 1]; `rules`, of a [`RuleReward`]: for each rule its `rule` in
        words and `weight`, `applies`, the share of the sentences to which it applies, and name of a set -> mean value
        over these sentences, in [0, 1], or None if there are none.
    """
    place = {name: i for i, name in enumerate(label_names)}
    codes = [torch.tensor(row) for row in reward.codes(words)]
    ids = [
        torch.tensor([[place[tag] for tag in rows[i]] for rows in tags.values()]) for i in range(len(words))
    ]  # (S, T)
    rewards, values, applies = [], [], []
    for begin in range(0, len(words), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        padded = pad_sequence([row.T for row in ids[part]], batch_first=True, padding_value=-1).transpose(1, 2)
        mask, y = padded[:, 0] >= 0, one_hot(padded.clamp_min(0), len(label_names)).float()  # (B, T), (B, S, T, C)
        given = pad_sequence(codes[part], batch_first=True), y, mask
        rewards.append(reward(*given))
        if isinstance(reward, RuleReward):
            value, applied = reward.parts(*given)  # (B, S, R), (B, R)
            values.append((value * applied.unsqueeze(1)).sum(0))
            applies.append(applied.sum(0))
    found: dict[str, Any] = {"reward": dict(zip(tags, torch.cat(rewards).mean(0).tolist(), strict=True))}
    if isinstance(reward, RuleReward):
        times = torch.stack(applies).sum(0)  # (R,)
        means = (torch.stack(values).sum(0) / times).tolist()  # (S, R)
        found["rules"] = [
            {
                "rule": in_words(rule),
                "weight": int(rule.weight) if rule.weight % 1 == 0 else rule.weight,
                "applies": int(n) / len(words),
            }
            | {name: row[r] if n else None for name, row in zip(tags, means, strict=True)}
            for r, (rule, n) in enumerate(zip(reward.ordered, times.tolist(), strict=True))
        ]
    return found


def in_words(rule: Rule) -> str:
    """A rule for readers."""
    return KINDS[rule.kind].format(pattern=rule.pattern, fields=", ".join(rule.fields))


# --- sections --------------------------------------------------------------------------------------------------------


def reward_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The section of [`reward_facts`]."""
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
    """Gold and decisions of the rules on which they differ most, joined by a line."""
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
