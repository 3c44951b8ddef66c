"""Label sets with few labelled rows and a reward for the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...cli.train.arguments import Arguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...data import DataArguments, MultiLabelData, load_multilabel
from ...training.arguments import SealTrainingArguments
from ..labels import program as mlc
from ..labels.program import ModelArguments
from .rows import RuleArguments, report_reward, rewarded_rows

ENERGY = {"energy_loss": "contrastive_divergence"}


@dataclass
class RewardArguments(RuleArguments, ModelArguments):
    """The reward, and the two nets."""


ARGUMENTS = (DataArguments, RewardArguments, RunArguments, SealTrainingArguments)


def close(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report, also on the reward."""
    figures = mlc.close(prepared, data, arguments)
    report_reward(prepared, data)
    return figures


PROGRAM = Program(
    ARGUMENTS,
    task="labels",
    metric="f1_example_tuned",
    recipes=mlc.PROGRAM.recipes,
    over=ENERGY,
    kind=mlc.recipe,
    loader=load_multilabel,
    ranges=mlc.ranges,
    make_trainer=partial(mlc.make_trainer, train_on=rewarded_rows),
    close=close,
    shares=False,
    settle=mlc.settle,
)
main = PROGRAM.main
