"""Rewards: how well outputs suit their inputs, without gold. By rules of a file, or by a function of the user's own.

A reward maps candidates y (B, S, ...) to (B, S) in [0, 1], 1 is best. It is the score s(y) of rows without gold (the
indirect supervision of Rooshenas et al. 2019, in Shankar & Piratla's citation fields). What it must know about the
inputs is computed once, as whole numbers, their codes. The spaces of `space.py` train with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .label_rules import LABEL_KINDS, LabelRuleReward
from .mask_rules import MASK_KINDS, MaskRuleReward
from .rule import Kinds, Rule, load_items, parse_rules
from .tag_rules import TAG_KINDS, TagRuleReward

OF_OUTPUT: dict[str, Kinds] = {"label sets": LABEL_KINDS, "tags": TAG_KINDS, "masks": MASK_KINDS}
for _reward in (LabelRuleReward, TagRuleReward, MaskRuleReward):
    _reward.others = OF_OUTPUT


def read_rules(file: str | Path) -> list[Rule]:
    """The rules of a YAML file, which are for one kind of output. Nothing in it is executed.

    Raises:
        ValueError: the file is wrong; the message names file and line.
    """
    return parse_rules(file, OF_OUTPUT[output_of_rules(file)], OF_OUTPUT)


def output_of_rules(file: str | Path) -> str:
    """The outputs that a file of rules is for, `label sets`, `tags` or `masks`, by the first rule whose kind is known.

    Raises:
        ValueError: as [`read_rules`]; no rule's kind is known, or there is no rule.
    """
    for item, _ in load_items(file):
        keys: Sequence[Any] = list(item) if isinstance(item, dict) else []
        for output, kinds in OF_OUTPUT.items():
            if any(key in kinds for key in keys):
                return output
    every = {key: kind for kinds in OF_OUTPUT.values() for key, kind in kinds.items()}
    parse_rules(file, every)  # raises at the first rule
    raise ValueError(f"{file} has no rule. Write rules below `rules:`, see docs/reference/rules.md.")
