"""Label sets with few labelled rows and a reward for the others."""

from __future__ import annotations

from dataclasses import dataclass

from ...cli.train.arguments import RunArguments
from ...data import DataArguments
from ...training.arguments import SealTrainingArguments
from ..labels import program as mlc
from ..labels.program import ModelArguments
from .rows import RuleArguments, with_reward


@dataclass
class RewardArguments(RuleArguments, ModelArguments):
    """The reward, and the two nets."""


ARGUMENTS = (DataArguments, RewardArguments, RunArguments, SealTrainingArguments)
ENERGY = {"energy_loss": "contrastive_divergence"}
PROGRAM = with_reward(mlc.PROGRAM, ARGUMENTS, over=ENERGY, before=lambda prepared, data, arguments: False)
main = PROGRAM.main
