"""Masks with few labelled images and a reward for the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...cli.train.arguments import Arguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...data import MaskDataArguments, SegmentationData, load_masks
from ...training.arguments import SealTrainingArguments
from ..masks import program as segmentation
from ..masks.program import ModelArguments
from ..masks.report import check_picture
from .rows import RuleArguments, report_reward, rewarded_rows

# rules are about whole images
OVER = {"energy_loss": "ranking", "sample_coherence": "field", "crop_size": 0}


@dataclass
class RewardArguments(RuleArguments, ModelArguments):
    """The reward, and the two nets."""


ARGUMENTS = (MaskDataArguments, RewardArguments, RunArguments, SealTrainingArguments)


def close(prepared: Prepared, data: SegmentationData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report, also on the reward."""
    figures = segmentation.close(prepared, data, arguments)
    report_reward(prepared, data)
    return figures


PROGRAM = Program(
    ARGUMENTS,
    task="masks",
    metric="mean_iou",
    recipes=segmentation.PROGRAM.recipes,
    kind=segmentation.kind,
    over=OVER,
    loader=load_masks,
    ranges=segmentation.ranges,
    make_trainer=partial(segmentation.make_trainer, train_on=rewarded_rows),
    close=close,
    shares=False,
    settle=lambda arguments: check_picture(arguments.nets.picture),
)
main = PROGRAM.main
