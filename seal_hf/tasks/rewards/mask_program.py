"""Masks with few labelled images and a reward for the others."""

from __future__ import annotations

from dataclasses import dataclass

from ...cli.train.arguments import RunArguments
from ...data import MaskDataArguments
from ...training.arguments import SealTrainingArguments
from ..masks import program as segmentation
from ..masks.program import ModelArguments
from .rows import RuleArguments, with_reward


@dataclass
class RewardArguments(RuleArguments, ModelArguments):
    """The reward, and the two nets."""


ARGUMENTS = (MaskDataArguments, RewardArguments, RunArguments, SealTrainingArguments)
OVER = {"energy_loss": "ranking", "sample_coherence": "field", "crop_size": 0}  # rules are about whole images
PROGRAM = with_reward(segmentation.PROGRAM, ARGUMENTS, over=OVER)
main = PROGRAM.main
